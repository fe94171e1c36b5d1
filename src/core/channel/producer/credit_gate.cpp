#include "core/channel/producer/credit_gate.hpp"

#include <algorithm>

#include "core/base/result.hpp"
#include "core/channel/status/status_text.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kLettingGoTime{500};
constexpr std::chrono::nanoseconds kMarkTime = std::chrono::milliseconds(10);  // [F]

}  // namespace

Result<Slot*> CreditGate::await_slot(Lock& lock, Bytes bytes, Deadline deadline) {
  GANTRY_TRY(await_room(lock, true, bytes, deadline));
  Slot* const slot = core_.consumers->slots().take(core_.rotation.places(bytes));
  GANTRY_ASSERT(slot != nullptr);  // await_room() found one free
  slot->bytes = bytes;
  GANTRY_STEP(slot_taken);
  return slot;
}

Result<void> CreditGate::await_room(Lock& lock, bool needs_slot, Bytes bytes, Deadline deadline,
                                    bool or_beside) {
  GANTRY_TRY(check_consumers());
  ConsumerSet& consumers = *core_.consumers;
  const Credits credits = core_.credits();
  auto ready = [&] {
    return consumers.lost() || credits.may_send(needs_slot, bytes) ||
           (or_beside && consumers.takes_beside());
  };
  auto why = [&]() -> WaitReason {
    const std::vector<std::string> obstacles = credits.obstacles(needs_slot, bytes);
    if (obstacles.empty())
      return {WaitReason::Kind::room, "", "timed out waiting for a credit, which has come since"};
    return {WaitReason::Kind::room, fmt::format("{}", fmt::join(obstacles, "; also "))};
  };
  // What has been read since is the quickest place for a large message: one look finds it.
  if (core_.rotation.goes_back(bytes) || !credits.may_send_unseen(bytes) || !ready())
    consumers.refresh();
  if (!ready()) {
    auto loans = core_.lent == ProducerCore::Lent::by_caller
                     ? credits.loans_in_the_way(needs_slot, bytes)
                     : std::optional<Error>();
    if (loans) return tl::unexpected(core_.named(std::move(*loans)));
    GANTRY_TRY(sleep(lock, deadline, std::ref(ready), std::ref(why), Lost::is_an_error,
                     trace::Awaited::credit));
  }
  return check_consumers();
}

bool CreditGate::has_credit(bool needs_slot, Bytes bytes) const {
  const Lock held = core_.lock();
  if (core_.consumers->lost() || core_.credits().may_send(needs_slot, bytes)) return true;
  core_.consumers->refresh();
  return core_.consumers->lost() || core_.credits().may_send(needs_slot, bytes);
}

// Waits, if it must, until consumers have heard of older slabs.
Result<void> CreditGate::announce(Lock& lock, const Slot& slot, Deadline deadline) {
  auto told = core_.publisher->announce(slot);
  const auto is_settled = [&] {
    told = core_.publisher->announce(slot);
    return !told || *told;
  };
  const auto why = []() -> WaitReason {
    return {WaitReason::Kind::memory, "for a consumer to let go of memory that was dropped"};
  };
  if (told && !*told) GANTRY_TRY(wait_until(lock, deadline, is_settled, why));
  if (!told) return tl::unexpected(core_.named(std::move(told).error()));
  return {};
}

Result<void> CreditGate::check_consumers() const {
  if (core_.consumers->lost()) return tl::unexpected(core_.named(*core_.consumers->lost()));
  return {};
}

// ---- waiting -------------------------------------------------------------------------------

Result<void> CreditGate::sleep(Lock& lock, Deadline deadline, const Condition& ready,
                               const Why& why, Lost lost, trace::Awaited awaited) {
  const trace::WaitProbe probe(core_.name, awaited);
  const std::uint64_t started = trace::ticks_and_look();
  stop_watching();
  caller_waits_ = true;
  core_.counters->waits.begin(started);
  trace::OpenWait open(core_.trace, started, awaited, peer());
  auto waited = guarded([&] { return sleep_until(lock, deadline, ready, why, lost, open); });
  if (!lock.owns_lock()) lock.lock();  // it ran out of heap while it slept
  core_.consumers->sleep_on({});
  caller_waits_ = false;
  watch_forwards();
  core_.counters->waits.end(read_ticks());
  open.end();
  if (trace::is_on()) [[unlikely]]
    core_.trace.waited(started, awaited, peer());
  return waited;
}

// Of several consumers nobody says here who was the last.
pid_t CreditGate::peer() const noexcept {
  const auto& consumers = core_.consumers->consumers();
  return consumers.size() == 1 ? consumers.front()->resources().pid : 0;
}

Result<void> CreditGate::sleep_until(Lock& lock, Deadline deadline, const Condition& ready,
                                     const Why& why, Lost lost, trace::OpenWait& open) {
  ConsumerSet& consumers = *core_.consumers;
  const ConsumerWakes wakes(consumers);
  const auto is_over = [&] {
    consumers.refresh();
    return ready();
  };
  const auto has_news = [&] {
    const Lock held = core_.lock();
    return is_over() || (lost == Lost::is_an_error && consumers.lost()) || is_stopping();
  };
  // Without a descriptor nobody can wake it: it looks again and again instead.
  const SharedFd event = core_.options.acceptor->lend_event().value_or(SharedFd());
  WaitFlag* const flags[] = {&core_.page().producer_sleeps};
  const SpinTime::Wait wait(core_.spin);
  LateLooks looks;
  Deadline patience = core_.options.notices ? Deadline::after(kNoticeAfter) : Deadline::never();
  bool marks_came = false;  // [F]
  for (;;) {
    if (lost == Lost::is_an_error) GANTRY_TRY(check_consumers());
    if (is_stopping()) return core_.refuse(Code::closed, "it ended");
    const std::string notice = take_notice(patience, why);
    const std::uint64_t now = monotonic_ns();
    WaitPoint point{flags, wakes.fall_asleep(event, now), core_.options.interrupt_descriptor};
    const auto nap = std::min(marks_came && event ? std::chrono::nanoseconds::max() : kMarkTime,
                              wakes.until_mutes_end(now));
    lock.unlock();
    if (!notice.empty()) say_notice(notice);
    const Deadline until = Deadline::after(std::min({deadline.left(), nap, patience.left()}));
    const Woken woken =
        wait_once(point, core_.spin.now(), until, has_news, [&open] { open.falls_asleep(); });
    lock.lock();
    const bool is_refreshed = woken == Woken::look;
    if (is_refreshed) wakes.drain(point.descriptors, monotonic_ns());
    if (is_refreshed ? ready() : is_over()) return {};
    if (woken == Woken::interrupted) return core_.refuse(Code::interrupted, "interrupted");
    if (woken == Woken::timed_out && nap >= kMarkTime && !patience.passed()) marks_came = true;
    const bool is_late = woken == Woken::timed_out && deadline.passed();
    if (!is_late && !looks.are_spent(deadline)) continue;
    if (lost == Lost::is_an_error) GANTRY_TRY(check_consumers());
    const WaitReason reason = why();
    return core_.refuse(Code::timed_out,
                        reason.late.empty() ? "timed out waiting " + reason.awaited : reason.late);
  }
}

// Under the lock. The caller says it without the lock: nobody may read standard error.
std::string CreditGate::take_notice(Deadline& patience, const Why& why) {
  if (!patience.passed()) return {};
  patience = Deadline::never();
  if (core_.consumers->count() != 0) return {};  // a slow one is nothing out of order
  const WaitReason reason = why();
  const unsigned bit = 1u << static_cast<unsigned>(reason.kind);
  if (reason.awaited.empty() || (std::exchange(noticed_, noticed_ | bit) & bit) != 0) return {};
  return core_.named({{}, "waiting " + reason.awaited, {}}).message;
}

// ---- what was passed on --------------------------------------------------------------------

void CreditGate::watch_forwards() {
  if (caller_waits_ || !core_.credits().holds_forwards()) return;
  const bool news = !acceptor_watches();
  acceptor_watches_.store(true, std::memory_order_relaxed);
  if (news) core_.page().producer_sleeps.announce();
  core_.consumers->refresh();  // for what came before the announcement
  if (news) look_again_();
}

void CreditGate::stop_watching() noexcept {
  if (acceptor_watches()) core_.page().producer_sleeps.withdraw();
  acceptor_watches_.store(false, std::memory_order_relaxed);
}

bool CreditGate::watch_wakes(const std::function<Result<AcceptWatch>(int descriptor)>& watch) {
  ConsumerWakes(*core_.consumers).watch(acceptor_watches(), watch);
  return acceptor_watches();
}

void CreditGate::credits_came() {
  if (!acceptor_watches()) return;  // a caller waits by now: the ring is for it
  ConsumerWakes(*core_.consumers).drain();
  stop_watching();
  core_.consumers->refresh();
  watch_forwards();
}

// ---- memory ----------------------------------------------------------------------------------

// Memory runs out while messages are in flight: wait until one comes back, as for a credit.
Result<Block> PayloadAllocator::allocate(Bytes size, Deadline deadline) {
  ConsumerSet& consumers = *core_.consumers;
  const Credits credits = core_.credits();
  BlockOptions options;
  options.counts_lingering = true;
  for (;;) {
    CreditGate::Lock held = core_.lock();
    // first: what comes back from here on counts
    const std::uint64_t before = credits.memory_returns();
    held.unlock();
    auto block = core_.pool.allocate(size, options);
    if (block || block.error().code != Code::out_of_memory) return block;
    held.lock();
    consumers.refresh();  // the pool may have dropped slabs: their consumers are told
    if (consumers.slots().drop_spares() || core_.publisher->take_back_for_memory()) continue;
    if (core_.lent == ProducerCore::Lent::by_caller)
      if (auto loans = loans_in_the_way(size))
        return tl::unexpected(core_.named(std::move(*loans)));
    if (options.counts_lingering) {
      GANTRY_ASSIGN(options.counts_lingering, await_return(held, before, deadline));
      continue;
    }
    if (credits.memory_returns() == before && !credits.awaits_memory()) return block;
    GANTRY_TRY(gate_.wait_until(
        held, deadline, [&] { return credits.memory_returns() != before; },
        [&] { return WaitReason{WaitReason::Kind::memory, "for memory: " + in_use()}; }));
    options.counts_lingering = true;  // what came back may be all that was missing
  }
}

// Gives consumers some time to unmap what was dropped. One that is in no call cannot, and has no
// message in that memory, so nobody waits for it any longer. False: nothing came back.
Result<bool> PayloadAllocator::await_return(CreditGate::Lock& held, std::uint64_t before,
                                            Deadline deadline) {
  const Credits credits = core_.credits();
  const auto any = [&] { return credits.memory_returns() != before; };
  const auto patience =
      Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kLettingGoTime));
  const auto waited = gate_.wait_until(
      held, patience, [&] { return any() || !credits.awaits_slabs(); },
      [] { return WaitReason{}; });  // nobody reads it
  const bool may_give_up = lingering_ == Lingering::is_given_up;
  if (!waited && (waited.error().code != Code::timed_out || !may_give_up))
    return tl::unexpected(waited.error());
  return any();
}

std::optional<Error> PayloadAllocator::loans_in_the_way(Bytes size) const {
  const Bytes lent = core_.credits().lent_bytes();
  const Bytes budget = core_.pool.report().budget_bytes;
  if (lent == 0 || (lent <= budget && size <= budget - lent)) return std::nullopt;
  return Error{Code::out_of_memory,
               fmt::format("no room for {}: your loans hold {} of the budget of {}",
                           bytes_text(size), bytes_text(lent), bytes_text(budget)),
               "publish or drop a loan, or raise PoolOptions::budget_bytes"};
}

std::string PayloadAllocator::in_use() const {
  const PoolReport memory = core_.pool.report();
  const Bytes lent = core_.credits().lent_bytes();
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
      memory.live_bytes - std::min(memory.live_bytes, core_.credits().yielding_bytes());
  if (used <= memory.budget_bytes && size <= memory.budget_bytes - used) return std::nullopt;
  if (!core_.credits().awaits_memory()) return fmt::format("for nothing, but fails: {}", in_use());
  return "for memory: " + in_use();
}

// It is touched.
bool PayloadAllocator::reuse(Slot& slot, Bytes size) noexcept {
  if (!slot.spare || slot.spare.bytes().size() < size || slot.spare.bytes().size() / 2 > size)
    return false;
  slot.block = std::move(slot.spare);
  return true;
}

Result<void> PayloadAllocator::fill(Slot& slot, Bytes size, Deadline deadline) {
  if (reuse(slot, size)) return {};
  slot.spare = Block();
  GANTRY_ASSIGN(slot.block, allocate(size, deadline));
  return {};
}

}  // namespace gantry
