#include "core/channel/producer/carriers.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/channel/producer/mode_choice.hpp"
#include "core/channel/wire/draft_checks.hpp"
#include "core/channel/wire/step.hpp"
#include "core/tensor/plan_source.hpp"

namespace gantry {
namespace {

// What is sent is what is wanted.
bool changes_nothing(const As& as, const ReshapePlan& plan) {
  return !as.plan && plan.source().type == plan.destination().type &&
         plan.source_bytes() == plan.destination_bytes() && plan.kind() != ReshapeClass::permuting;
}

// Of a plan that the user made: it is for what is sent, and for all of it.
Result<void> check_given(const As& wish, Bytes bytes) {
  const ReshapePlan& plan = *wish.plan;
  if (bytes - plan.source_bytes() > shape::gap_behind(plan.source()))
    return fail(Code::invalid_argument,
                fmt::format("{} bytes are sent, the plan reads {}: {}", bytes, plan.source_bytes(),
                            plan.text()),
                "send the plan's source alone, or make a plan for all of it");
  return {};
}

Result<void> settle_one(Draft::Part& part, const As& wish) {
  const bool is_for_it = part.as && part.as->plan;         // and not for all that the channel sends
  if (part.bytes.empty() && !part.tensor && !is_for_it) {  // there is nothing to convert
    part.as.reset();
    return {};
  }
  GANTRY_ASSIGN(const ReshapePlan plan, wish.plan_for(part.tensor, part.bytes.size()));
  if (wish.plan) GANTRY_TRY(check_given(wish, part.bytes.size()));
  if (changes_nothing(wish, plan)) {
    if (!part.tensor) part.tensor = plan.source();
    part.as.reset();
    return {};
  }
  if (part.moved || part.forwarded)
    return fail(Code::invalid_argument,
                fmt::format("a {} of {} cannot become {}: it is not copied",
                            part.moved ? "block" : "message that travels on",
                            to_string(plan.source().type), to_string(plan.destination().type)),
                "send its bytes with Draft::copy(), which converts while it copies");
  part.as = wish;
  part.as->plan = plan;
  part.as->from.reset();
  part.as->exact = false;
  part.copied = part.bytes = part.bytes.first(plan.source_bytes());
  return {};
}

// Nobody else may have published while a call copied.
Result<void> sent_by_two(const ProducerCore& core) {
  return core.refuse(Code::invalid_argument,
                     "two threads sent at once; a Producer is used by one thread at a time",
                     "guard it by a mutex, or open a producer for each thread");
}

}  // namespace

// The wish that counts is the part's, or else the send's, or else the channel's.
Result<void> Carriers::settle(std::span<Draft::Part> parts, const SendOptions& options) const {
  const As* const wish = options.as != nullptr ? options.as
                         : core_.options.as    ? &*core_.options.as
                                               : nullptr;
  for (Draft::Part& part : parts) {
    if (!part.as && wish == nullptr) continue;
    const As as = part.as ? *part.as : *wish;
    if (auto settled = settle_one(part, as); !settled)
      return tl::unexpected(core_.named(std::move(settled).error()));
  }
  return {};
}

Result<void> Carriers::send_small(ConstByteSpan payload, const SendOptions& options,
                                  Urgency urgency) {
  GANTRY_ASSERT(payload.size() <= Message::kInlineBytes);
  ProducerCore::Lock held = core_.lock();
  GANTRY_TRY(gate_.await_room(held, false, 0, options.deadline));
  if (is_plain(options) &&
      core_.publisher->try_publish_small({&payload, 1}, options.type, options.user) == 1)
    return {};
  RecordToSend message =
      record_for(options, PayloadLocation::here, static_cast<std::uint8_t>(payload.size()));
  message.small = payload;
  message.urgency = urgency;
  core_.publisher->publish(message, nullptr);
  return {};
}

std::optional<Result<void>> Carriers::try_send_beside(ConstByteSpan payload,
                                                      const SendOptions& options, Lane& lane,
                                                      const BesidePayload* told,
                                                      const ReshapePlan* reshape) {
  const Bytes size = reshape != nullptr ? reshape->destination_bytes() : payload.size();
  const SendMode mode = core_.mode_of(options);
  if (size > core_.options.cell_bytes || !is_plain(options) || mode == SendMode::immutable ||
      !check_mode(mode))
    return std::nullopt;
  ProducerCore::Lock held = core_.lock();
  if (!core_.consumers->takes_beside()) {
    // Slots may be kept for ever, but perhaps a consumer comes that needs none.
    if (core_.credits().may_send(true, size)) return std::nullopt;
    auto room = gate_.await_room(held, true, size, options.deadline, true);
    if (!room) return room;
    if (!core_.consumers->takes_beside()) return std::nullopt;
  }
  Publisher::BesidePlan plan = core_.publisher->plan_beside();
  if (plan.bytes.empty()) {
    auto room = gate_.await_room(held, false, 0, options.deadline);
    if (!room) return room;
    plan = core_.publisher->plan_beside();
    if (plan.bytes.empty()) return std::nullopt;  // others came meanwhile, or have all places
  }
  const std::uint64_t before = core_.publisher->published();
  held.unlock();
  GANTRY_STEP(parts_placed);
  const std::uint64_t started = read_ticks();
  const ByteSpan place = plan.bytes.first(size);
  const Move move =
      reshape != nullptr ? Move::reshape(place, payload, *reshape) : Move::copy(place, payload);
  auto copied = copy_by(lane, move);
  if (!copied) return tl::unexpected(core_.named(std::move(copied).error()));
  GANTRY_STEP(copied);
  held.lock();
  if (core_.publisher->published() != before) [[unlikely]]
    return sent_by_two(core_);
  const BesidePayload plain{size};
  if (!core_.publisher->try_publish_beside(plan, told == nullptr ? plain : *told, options.type,
                                           options.user))
    return std::nullopt;
  GANTRY_STEP(message_published);
  core_.last_copy = {move.destination, move.source,    move.bytes,    move.bytes,
                     SendMode::whole,  copied->engine, copied->cache, plan_of_move(move)};
  core_.counters->message(size);
  const std::uint64_t number = core_.publisher->published();
  const std::uint64_t took = core_.note_copied(copied->engine, started, size, number, 1);
  core_.note_sent(started, number, size, started + took);  // the copy was all of it
  return Result<void>();
}

std::optional<Result<void>> Carriers::try_send_beside(std::span<const Draft::Part> parts,
                                                      const SendOptions& options) {
  if (parts.size() != 1) return std::nullopt;
  const Draft::Part& part = parts.front();
  if (part.moved || part.forwarded || part.copied.empty() || part.copied.data() == nullptr)
    return std::nullopt;
  const std::optional<Tensor> tensor = tensor_of(part);
  if (!tensor) return try_send_beside(part.copied, options, *core_.lane);
  if (size_of(part) > core_.options.cell_bytes) return std::nullopt;
  const auto told = payload_beside(size_of(part), *tensor);
  if (!told) return std::nullopt;
  return try_send_beside(part.copied, options, *core_.lane, &*told, plan_of(part));
}

Result<void> Carriers::send_in_slot(std::span<Draft::Part> parts, const SendOptions& options,
                                    Lane& lane, Memory memory) {
  GANTRY_TRY(settle(parts, options));
  SecondCopier* const second = &lane == core_.lane.get() ? second_.get() : nullptr;
  PayloadAllocator& from = memory == Memory::available ? available_ : allocator_;
  return SendOperation({core_, gate_, from, cache_uses_}, parts, options, lane, second).run();
}

// ---- memory that the caller fills -------------------------------------------------------------

Result<Loan> Loans::lend(std::shared_ptr<detail::SlotOwner> self, Bytes size, Deadline deadline) {
  ProducerCore::Lock held = core_.lock();
  GANTRY_ASSIGN(Slot* const slot, gate_.await_slot(held, size, deadline));
  held.unlock();
  const auto taken = carriers_.allocator().fill(*slot, size, deadline);
  held.lock();
  if (taken) slot->slabs = {slot->block.slab()};
  const auto told = taken ? gate_.announce(held, *slot, deadline) : taken;
  if (!told) {
    core_.consumers->slots().release(*slot);
    return tl::unexpected(told.error());
  }
  slot->is_lent = true;
  GANTRY_STEP(loaned);
  return Loan(std::move(self), core_.consumers->slots().index_of(*slot),
              slot->block.bytes().first(size));
}

void Loans::give_back(std::uint64_t token) noexcept {
  if (!core_.fork_guard.is_this()) return;  // a fork's copy
  GANTRY_ASSERT(token < kMaxSlots);
  const ProducerCore::Lock held = core_.lock();
  core_.consumers->slots().release(core_.consumers->slots()[token]);
}

Result<void> Loans::check(const Loan& loan, const SendOptions& options) const {
  if (core_.mode_of(options) == SendMode::immutable)
    return core_.refuse(Code::invalid_argument, "a loan cannot be immutable: it stays writable",
                        "send a copy");
  if (loan.owner() != this)
    return core_.refuse(Code::invalid_argument, "that loan is empty or of another channel",
                        "publish what this channel's loan() has returned, once");
  return {};
}

Result<void> Loans::publish(Loan loan, const SendOptions& options) {
  GANTRY_ASSERT(loan.owner() == this && loan.token() < kMaxSlots);
  Slot& slot = core_.consumers->slots()[loan.token()];
  if (carriers_.converts(options)) {
    // The message is made of the loan's block in another one, in the loan's slot.
    Draft::Part part = part_of(loan.bytes());
    GANTRY_TRY(carriers_.settle({&part, 1}, options));
    SendOperation operation = carriers_.operation({&part, 1}, options);
    auto sent = operation.run_in(slot);
    if (operation.has_taken_slot()) loan.forget();
    return sent;
  }
  const ProducerCore::Lock held = core_.lock();
  GANTRY_TRY(gate_.check_consumers());
  GANTRY_ASSERT(slot.is_lent);
  RecordToSend message = record_for(options, PayloadLocation::block, 1);
  message.place.offset = slot.block.offset();
  message.place.slab = slot.block.slab();
  message.place.bytes = slot.bytes = loan.bytes().size();
  slot.is_lent = false;
  core_.publisher->publish(message, &slot);
  const std::uint64_t began = slot.ticks;
  core_.consumers->slots().release(slot);
  core_.counters->message(loan.bytes().size());
  core_.note_sent(began, message.header.number, loan.bytes().size());
  loan.forget();
  return {};
}

Result<EarlyMessage> Loans::send_early(std::shared_ptr<detail::EarlySender> self,
                                       std::span<Draft::Part> parts, const SendOptions& options) {
  GANTRY_DEBUG_ASSERT(!is_landing_);
  Bytes size = 0;
  GANTRY_TRY(carriers_.settle(parts, options));
  for (const Draft::Part& part : parts) size += part.bytes.size();
  GANTRY_ASSIGN(Slot* const slot, carriers_.operation(parts, options).run_early());
  core_.note_sent(slot->ticks, slot->number, size);
  is_landing_ = true;
  return EarlyMessage(std::move(self), core_.consumers->slots().index_of(*slot), size);
}

Result<void> Loans::check_landed() const {
  if (!is_landing_) return {};
  return core_.refuse(Code::busy, "a message that was sent early has not landed",
                      "say that all of it has landed, EarlyMessage::land(), or drop it");
}

void Loans::land(std::uint64_t token, Bytes bytes, bool is_last) noexcept {
  if (!core_.fork_guard.is_this()) return;  // a fork's copy
  GANTRY_ASSERT(token < kMaxSlots && is_landing_);
  const ProducerCore::Lock held = core_.lock();
  Slot& slot = core_.consumers->slots()[token];
  core_.tell_landed(slot, bytes);
  GANTRY_STEP(landed_stored);
  core_.publisher->wake_holders(slot);
  if (!is_last) return;
  core_.consumers->slots().release(slot);
  is_landing_ = false;
}

}  // namespace gantry
