// What send(), send_async(), loan() and publish() do: credits, memory, copies, publication.

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/clock.hpp"
#include "channel/producer/send_operation.hpp"
#include "channel/producer/wait_for_credit.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kLettingGoTime{500};

}  // namespace

// ---- credits -------------------------------------------------------------------------------

Result<void> Producer::Impl::await_room(Lock& lock, bool needs_slot, Bytes bytes,
                                        Deadline deadline) {
  GANTRY_TRY(check_readers());
  GANTRY_TRY(wait_until(lock, deadline, [=, this] {
    return consumers_->lost() || consumers_->may_send(needs_slot, bytes);
  }));
  return check_readers();
}

Result<Slot*> Producer::Impl::await_slot(Lock& lock, Bytes bytes, Deadline deadline) {
  GANTRY_TRY(await_room(lock, true, bytes, deadline));
  Slot* const slot = consumers_->take_slot(bytes);
  GANTRY_STEP(slot_taken);
  return slot;
}

// Under the lock, but while it waits for consumers to hear of older slabs.
Result<void> Producer::Impl::announced(Lock& lock, const Slot& slot, Deadline deadline) {
  auto told = consumers_->announce(slot);
  const auto is_settled = [&] {
    told = consumers_->announce(slot);
    return !told || *told;
  };
  if (told && !*told) GANTRY_TRY(wait_until(lock, deadline, is_settled));
  if (!told) return tl::unexpected(named(std::move(told).error()));
  return {};
}

// Memory runs out while messages are on their way: wait for one to come back, as for a credit.
Result<Block> Producer::Impl::allocate(Bytes size, Deadline deadline) {
  BlockOptions options;
  options.counts_lingering = true;
  for (;;) {
    Lock held = lock();
    const std::uint64_t before =
        consumers_->memory_returns();  // first: what comes back then counts
    held.unlock();
    auto block = pool_.allocate(size, options);
    if (block || block.error().code != Code::out_of_memory) return block;
    held.lock();
    consumers_->refresh();  // the pool may have dropped slabs: their consumers are told
    if (consumers_->slots().drop_spares() || consumers_->take_back_for_memory()) continue;
    if (options.counts_lingering) {
      GANTRY_ASSIGN(options.counts_lingering, await_return(held, before, deadline));
      continue;
    }
    if (consumers_->memory_returns() == before && !consumers_->awaits_memory()) return block;
    GANTRY_TRY(wait_until(held, deadline,
                          [this, before] { return consumers_->memory_returns() != before; }));
    options.counts_lingering = true;  // what came back may be all that was missing
  }
}

// Consumers are given some time to unmap what was dropped. One that is in no call cannot, and has
// no message in that memory: nobody is held up for it any longer. False: nothing came back.
Result<bool> Producer::Impl::await_return(Lock& held, std::uint64_t before, Deadline deadline) {
  const auto any = [this, before] { return consumers_->memory_returns() != before; };
  const auto patience =
      Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kLettingGoTime));
  const auto waited =
      wait_until(held, patience, [&] { return any() || !consumers_->awaits_slabs(); });
  if (!waited && waited.error().code != Code::timed_out) return tl::unexpected(waited.error());
  return any();
}

// The same memory as last time if it does: it is touched, and, being that of another slot than the
// last message's, no longer in a consumer's cache, from where writing it would have to call it
// back.
Result<void> Producer::Impl::take_block(Slot& slot, Bytes size, Deadline deadline) {
  if (slot.spare && slot.spare.bytes().size() >= size && slot.spare.bytes().size() / 2 <= size) {
    slot.block = std::move(slot.spare);
    return {};
  }
  slot.spare = Block();
  GANTRY_ASSIGN(slot.block, allocate(size, deadline));
  return {};
}

CacheUse Producer::Impl::cache_use_of(const Lane& lane, Bytes bytes) {
  CacheUse& use = cache_uses_[static_cast<std::size_t>(std::bit_width(bytes))];
  if (use == CacheUse::automatic) {
    Move move;  // of no memory in particular
    move.bytes = bytes;
    // A wish: the message may be published already, so missing memory must not end the copy.
    use = guarded([&]() -> Result<CacheUse> {
            return lane.explain(move, SubmitMode::synchronous).cache;
          }).value_or(CacheUse::automatic);
  }
  return use;
}

// ---- loans ---------------------------------------------------------------------------------

Result<Loan> Producer::Impl::loan(Bytes size, Deadline deadline) {
  const CpuCharge charge(*metrics_.meter(), size, calls_++);
  GANTRY_TRY(check_open());
  if (size == 0)
    return fail(Code::invalid_argument, fmt::format("channel '{}': a loan of 0 bytes", name_));
  GANTRY_TRY(stay_in_order(deadline));
  Lock held = lock();
  GANTRY_ASSIGN(Slot* const slot, await_slot(held, size, deadline));
  held.unlock();
  const auto taken = take_block(*slot, size, deadline);
  held.lock();
  if (taken) slot->slabs = {slot->block.slab()};
  const auto told = taken ? announced(held, *slot, deadline) : taken;
  if (!told) {
    consumers_->release(*slot);
    return tl::unexpected(told.error());
  }
  GANTRY_STEP(loaned);
  return Loan(shared_from_this(), consumers_->slots().index_of(*slot),
              slot->block.bytes().first(size));
}

void Producer::Impl::give_back(std::uint64_t token) noexcept {
  if (!fork_guard_.is_this()) return;  // a fork's copy
  const Lock held = lock();
  consumers_->release(consumers_->slots()[token]);
}

Result<void> Producer::Impl::publish(Loan loan, const SendOptions& options) {
  if ((options.mode == SendMode::automatic ? options_.mode : options.mode) == SendMode::immutable)
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': a loan cannot be immutable: it stays writable", name_),
                "send a copy");
  if (loan.owner() != this)
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': that loan is empty or of another channel", name_));
  GANTRY_TRY(check_open());
  GANTRY_TRY(stay_in_order(options.deadline));
  const Lock held = lock();
  GANTRY_TRY(check_readers());
  Slot& slot = consumers_->slots()[loan.token()];
  RecordToSend message = record_for(options, PayloadLocation::block, 1);
  message.place.offset = slot.block.offset();
  message.place.slab = slot.block.slab();
  message.place.bytes = slot.bytes = loan.bytes().size();
  consumers_->publish(message, &slot);
  consumers_->release(slot);
  counters_->message(slot.bytes);
  loan.forget();
  return {};
}

// ---- sending -------------------------------------------------------------------------------

Result<void> Producer::Impl::send_small(ConstByteSpan payload, const SendOptions& options) {
  const CpuCharge charge(*metrics_.meter(), payload.size(), calls_++);
  Result<void> result;
  const bool is_plain = (options.correlation | options.deadline_ns) == 0;
  if (ended_ || !fork_guard_.is_this() || !is_queue_idle() || !is_plain) [[unlikely]] {
    result = slow_send_small(payload, options);
  } else {
    Lock held = lock();
    if (!consumers_->try_publish_small(payload, options.type, options.user)) [[unlikely]] {
      held.unlock();
      result = slow_send_small(payload, options);
    }
  }
  if (!result) return result;
  counters_->message(payload.size());
  counters_->copy(CopyEngine::inline_, payload.size(), 0);
  return result;
}

Result<void> Producer::Impl::slow_send_small(ConstByteSpan payload, const SendOptions& options) {
  GANTRY_TRY(check_open());
  GANTRY_TRY(stay_in_order(options.deadline));
  Lock held = lock();
  GANTRY_TRY(await_room(held, false, 0, options.deadline));
  RecordToSend message =
      record_for(options, PayloadLocation::here, static_cast<std::uint8_t>(payload.size()));
  message.small = payload;
  consumers_->publish(message, nullptr);
  return {};
}

Result<void> Producer::Impl::send(ConstByteSpan payload, const SendOptions& options) {
  if (payload.size() <= Message::kInlineBytes) return send_small(payload, options);
  Draft::Part part;
  part.copied = part.bytes = payload;
  const CpuCharge charge(*metrics_.meter(), payload.size(), calls_++);
  GANTRY_TRY(check_open());
  if (!is_queue_idle()) GANTRY_TRY(stay_in_order(options.deadline));
  return transmit({&part, 1}, options, *lane_);
}

Result<void> Producer::Impl::send(std::vector<Draft::Part> parts, const SendOptions& options) {
  if (parts.empty()) return send_small({}, options);
  Bytes copied = 0;  // what else there is takes no time
  for (const Draft::Part& part : parts) copied += part.copied.size();
  const CpuCharge charge(*metrics_.meter(), copied, calls_++);
  GANTRY_TRY(check_open());
  if (!is_queue_idle()) GANTRY_TRY(stay_in_order(options.deadline));
  return transmit(parts, options, *lane_);
}

Result<Ticket> Producer::Impl::send_async(SendJob&& job) {
  GANTRY_TRY(check_open());
  if (!queue_)
    queue_ = std::make_unique<SendQueue>([this](SendJob& queued) { return send_queued(queued); },
                                         options_.spin, options_.progress_cpus);
  auto ticket = queue_->push(std::move(job));
  if (!ticket) return tl::unexpected(named(std::move(ticket).error()));
  return ticket;
}

// On the progress thread.
Result<void> Producer::Impl::send_queued(SendJob& job) {
  if (!job.parts.empty()) return transmit(job.parts, job.options, *queue_lane_);
  Draft::Part part;
  part.copied = part.bytes = job.payload;
  return transmit({&part, 1}, job.options, *queue_lane_);
}

Outcome Producer::Impl::outcome(Ticket ticket) const noexcept {
  return queue_ && fork_guard_.is_this() ? queue_->outcome(ticket) : Outcome::failed;
}

Result<void> Producer::Impl::wait(Ticket ticket, Deadline deadline) {
  GANTRY_TRY(check_process());
  if (!queue_)
    return fail(Code::invalid_argument, fmt::format("channel '{}': no such ticket", name_));
  return queue_->wait(ticket, deadline, options_.interrupt_descriptor);
}

// Who may not hold it up is asked for only where it matters.
SendMode Producer::Impl::mode_for(ModeQuestion question) const {
  const SendMode mode = choose_mode(question);
  if (mode != SendMode::streamed) return mode;
  const Lock held = lock();
  question.all_block = consumers_->all_block();
  return choose_mode(question);
}

Result<int> Producer::Impl::sent_descriptor() {
  GANTRY_TRY(check_process());
  if (!queue_)
    return fail(Code::invalid_argument, fmt::format("channel '{}': nothing is sent behind", name_));
  return queue_->event_descriptor();
}

void Producer::Impl::note_woken() noexcept {
  if (queue_ && fork_guard_.is_this()) queue_->note_woken();
}

Result<void> Producer::Impl::transmit(std::span<Draft::Part> parts, const SendOptions& options,
                                      Lane& lane) {
  SendOperation send_operation(*this, parts, options, lane);
  return send_operation.run();
}

Error Producer::Impl::copy_error(const Completion& completion, Bytes bytes) const {
  const bool theirs = completion.cause == Cause::unreadable;
  return {theirs ? Code::invalid_argument : Code::system,
          fmt::format("channel '{}': copying {} bytes: the {} engine stopped after {}: {} at "
                      "{:#x}",
                      name_, bytes, to_string(completion.engine), completion.bytes_done,
                      to_string(completion.cause), completion.fault_address),
          theirs ? "the payload must stay mapped, and its file as long, until it was sent" : ""};
}

}  // namespace gantry
