#include "channel/producer/payload_allocator.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "channel/status/status_text.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kLettingGoTime{500};

}  // namespace

// Memory runs out while messages are in flight: wait until one comes back, as for a credit.
Result<Block> PayloadAllocator::allocate(Bytes size, Deadline deadline, CreditGate::Lent lent) {
  ConsumerSet& consumers = *core_.consumers;
  BlockOptions options;
  options.counts_lingering = true;
  for (;;) {
    CreditGate::Lock held = core_.lock();
    // first: what comes back from here on counts
    const std::uint64_t before = consumers.memory_returns();
    held.unlock();
    auto block = core_.pool.allocate(size, options);
    if (block || block.error().code != Code::out_of_memory) return block;
    held.lock();
    consumers.refresh();  // the pool may have dropped slabs: their consumers are told
    if (consumers.slots().drop_spares() || consumers.take_back_for_memory()) continue;
    if (lent == CreditGate::Lent::by_caller)
      if (auto loans = loans_in_the_way(size))
        return tl::unexpected(core_.named(std::move(*loans)));
    if (options.counts_lingering) {
      GANTRY_ASSIGN(options.counts_lingering, await_return(held, before, deadline));
      continue;
    }
    if (consumers.memory_returns() == before && !consumers.awaits_memory()) return block;
    GANTRY_TRY(gate_.wait_until(
        held, deadline, [&] { return consumers.memory_returns() != before; },
        [&] { return WaitReason{WaitReason::Kind::memory, "for memory: " + in_use()}; }));
    options.counts_lingering = true;  // what came back may be all that was missing
  }
}

// Gives consumers some time to unmap what was dropped. One that is in no call cannot, and has no
// message in that memory, so nobody waits for it any longer. False: nothing came back.
Result<bool> PayloadAllocator::await_return(CreditGate::Lock& held, std::uint64_t before,
                                            Deadline deadline) {
  const ConsumerSet& consumers = *core_.consumers;
  const auto any = [&] { return consumers.memory_returns() != before; };
  const auto patience =
      Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kLettingGoTime));
  const auto waited = gate_.wait_until(
      held, patience, [&] { return any() || !consumers.awaits_slabs(); },
      [] { return WaitReason{}; });  // nobody reads it
  const bool may_give_up = lingering_ == Lingering::is_given_up;
  if (!waited && (waited.error().code != Code::timed_out || !may_give_up))
    return tl::unexpected(waited.error());
  return any();
}

std::optional<Error> PayloadAllocator::loans_in_the_way(Bytes size) const {
  const Bytes lent = core_.consumers->lent_bytes();
  const Bytes budget = core_.pool.report().budget_bytes;
  if (lent == 0 || (lent <= budget && size <= budget - lent)) return std::nullopt;
  return Error{Code::out_of_memory,
               fmt::format("no room for {}: your loans hold {} of the budget of {}",
                           bytes_text(size), bytes_text(lent), bytes_text(budget)),
               "publish or drop a loan, or raise PoolOptions::budget_bytes"};
}

std::string PayloadAllocator::in_use() const {
  const PoolReport memory = core_.pool.report();
  const Bytes lent = core_.consumers->lent_bytes();
  return fmt::format("{} of the budget of {} are in use{}", bytes_text(memory.live_bytes),
                     bytes_text(memory.budget_bytes),
                     lent == 0 ? "" : fmt::format(", {} by your loans", bytes_text(lent)));
}

// What takes no wait is not told: spare blocks, the history, what can be taken back. Nor is what
// only trying shows: a budget that is cut up, or memory that readers still map.
std::optional<std::string> PayloadAllocator::obstacle(Bytes size) const {
  if (const auto loans = loans_in_the_way(size))
    return fmt::format("for nothing, but fails: {}", loans->message);
  const PoolReport memory = core_.pool.report();
  if (size > memory.budget_bytes)
    return fmt::format("for nothing, but fails: {} are more than the budget of {}",
                       bytes_text(size), bytes_text(memory.budget_bytes));
  const Bytes used =
      memory.live_bytes - std::min(memory.live_bytes, core_.consumers->yielding_bytes());
  if (used <= memory.budget_bytes && size <= memory.budget_bytes - used) return std::nullopt;
  if (!core_.consumers->awaits_memory()) return fmt::format("for nothing, but fails: {}", in_use());
  return "for memory: " + in_use();
}

// It is touched.
bool PayloadAllocator::reuse(Slot& slot, Bytes size) noexcept {
  if (!slot.spare || slot.spare.bytes().size() < size || slot.spare.bytes().size() / 2 > size)
    return false;
  slot.block = std::move(slot.spare);
  return true;
}

Result<void> PayloadAllocator::fill(Slot& slot, Bytes size, Deadline deadline,
                                    CreditGate::Lent lent) {
  if (reuse(slot, size)) return {};
  slot.spare = Block();
  GANTRY_ASSIGN(slot.block, allocate(size, deadline, lent));
  return {};
}

}  // namespace gantry
