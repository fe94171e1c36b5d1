// loan(), publish() and send_early(): memory that the caller fills itself.

#include "channel/producer/producer.hpp"
#include "channel/wire/step.hpp"

namespace gantry {

// ---- loans ---------------------------------------------------------------------------------

Result<Loan> Producer::Impl::loan(Bytes size, Deadline deadline) {
  const CpuCharge charge(*core_.metrics.meter(), size, calls_++);
  GANTRY_TRY(check_open());
  if (size == 0)
    return fail(Code::invalid_argument, fmt::format("channel '{}': a loan of 0 bytes", core_.name),
                "send() an empty payload instead");
  GANTRY_TRY(stay_in_order(deadline));
  Lock held = core_.lock();
  GANTRY_ASSIGN(Slot* const slot, gate_.await_slot(held, size, deadline, lent_here()));
  held.unlock();
  const auto taken = allocator_.fill(*slot, size, deadline, lent_here());
  held.lock();
  if (taken) slot->slabs = {slot->block.slab()};
  const auto told = taken ? gate_.announce(held, *slot, deadline) : taken;
  if (!told) {
    core_.consumers->release(*slot);
    return tl::unexpected(told.error());
  }
  slot->is_lent = true;
  GANTRY_STEP(loaned);
  return Loan(shared_from_this(), core_.consumers->slots().index_of(*slot),
              slot->block.bytes().first(size));
}

void Producer::Impl::give_back(std::uint64_t token) noexcept {
  if (!fork_guard_.is_this()) return;  // a fork's copy
  const Lock held = core_.lock();
  core_.consumers->release(core_.consumers->slots()[token]);
}

Result<void> Producer::Impl::publish(Loan loan, const SendOptions& options) {
  if ((options.mode == SendMode::automatic ? core_.options.mode : options.mode) ==
      SendMode::immutable)
    return fail(
        Code::invalid_argument,
        fmt::format("channel '{}': a loan cannot be immutable: it stays writable", core_.name),
        "send a copy");
  if (loan.owner() != this)
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': that loan is empty or of another channel", core_.name),
                "publish what this channel's loan() has returned, once");
  GANTRY_TRY(check_sends());
  GANTRY_TRY(stay_in_order(options.deadline));
  if (converts(options)) return publish_converted(std::move(loan), options);
  const Lock held = core_.lock();
  GANTRY_TRY(gate_.check_consumers());
  Slot& slot = core_.consumers->slots()[loan.token()];
  RecordToSend message = record_for(options, PayloadLocation::block, 1);
  message.place.offset = slot.block.offset();
  message.place.slab = slot.block.slab();
  message.place.bytes = slot.bytes = loan.bytes().size();
  slot.is_lent = false;
  core_.consumers->publish(message, &slot);
  core_.consumers->release(slot);
  core_.counters->message(slot.bytes);
  GANTRY_PROBE(send, core_.name.c_str(), slot.number, slot.bytes);
  if (trace::is_on()) [[unlikely]]
    core_.trace.sent(slot.ticks, read_ticks(), slot.number, slot.bytes);
  loan.forget();
  return {};
}

// The message is made of the loan's block in another one, in the loan's slot.
Result<void> Producer::Impl::publish_converted(Loan loan, const SendOptions& options) {
  Draft::Part part;
  part.copied = part.bytes = loan.bytes();
  GANTRY_TRY(settle({&part, 1}, options));
  Lock held = core_.lock();
  Slot& slot = core_.consumers->slots()[loan.token()];
  held.unlock();
  SendOperation operation({core_, gate_, allocator_, cache_uses_, lent_here()}, {&part, 1}, options,
                          *lane_, second_.get());
  auto published = operation.run_in(slot);
  if (operation.has_taken_slot()) loan.forget();
  return published;
}

// ---- early ---------------------------------------------------------------------------------

Result<EarlyMessage> Producer::Impl::send_early(std::vector<Draft::Part> parts,
                                                const SendOptions& options) {
  GANTRY_TRY(check_sends());
  if (parts.empty())
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': an empty draft, sent early", core_.name));
  GANTRY_TRY(stay_in_order(options.deadline));
  GANTRY_TRY(settle(parts, options));
  Bytes size = 0;
  for (const Draft::Part& part : parts) size += part.bytes.size();
  SendOperation operation({core_, gate_, allocator_, cache_uses_, lent_here()}, parts, options,
                          *lane_, nullptr);
  GANTRY_ASSIGN(Slot* const slot, operation.run_early());
  GANTRY_PROBE(send, core_.name.c_str(), slot->number, size);
  if (trace::is_on()) [[unlikely]]
    core_.trace.sent(slot->ticks, read_ticks(), slot->number, size);
  sends_early_ = true;
  return EarlyMessage(shared_from_this(), core_.consumers->slots().index_of(*slot), size);
}

void Producer::Impl::land(std::uint64_t token, Bytes bytes, bool is_last) noexcept {
  if (!fork_guard_.is_this()) return;  // a fork's copy
  const Lock held = core_.lock();
  Slot& slot = core_.consumers->slots()[token];
  core_.tell_landed(slot, bytes);
  GANTRY_STEP(landed_stored);
  core_.consumers->wake_holders(slot);
  if (!is_last) return;
  core_.consumers->release(slot);
  sends_early_ = false;
}

void Producer::Impl::give_up(std::uint64_t token, Bytes landed) noexcept {
  land(token, landed | LandingWord::kAborted, true);
}

}  // namespace gantry
