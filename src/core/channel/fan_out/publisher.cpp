#include "core/channel/fan_out/publisher.hpp"

#include <algorithm>
#include <bit>

#include "core/channel/wire/step.hpp"

namespace gantry {

// ---- in their records ------------------------------------------------------------------------

// A consumer that holds nothing has nothing to give back. What else refresh() sees, packets that
// were heard and memory that comes back from those who left, is not awaited here; but it must be
// seen in the end, so now and then the caller is sent the long way.
bool Publisher::finds_room(ConsumerState& only) noexcept {
  constexpr unsigned kRefreshEvery = 8;
  if (++looks_ % kRefreshEvery == 0 || only.holds() != 0 || !consumers_.departed().is_empty())
    return false;
  return only.refresh() && only.unread() < consumers_.limits().slots;
}

// ---- beside their records --------------------------------------------------------------------

Publisher::BesidePlan Publisher::plan_beside() {
  // The next place alone is asked for first: most messages find it free.
  if (consumers_.takes_beside() && all_have_room() && places_.next_is_before(needed_) &&
      consumers_.departed().is_empty()) [[likely]]
    return {places_.next(), places_.bytes(places_.next())};
  for (const bool looks : {false, true}) {
    if (looks) look_at_places();
    if (!consumers_.takes_beside()) return {};
    if (!all_have_room()) continue;
    const DepartedConsumers& departed = consumers_.departed();
    const auto place =
        places_.free(needed_, [&](std::uint64_t number) { return departed.may_read(number); });
    if (place) return {*place, places_.bytes(*place)};
  }
  return {};
}

// I11: what is published from here on has larger numbers.
void Publisher::look_at_places() {
  consumers_.refresh();
  needed_ = number_ + 1;
  for (const auto& consumer : consumers_.consumers())
    needed_ = std::min(needed_, consumer->oldest_needed());
}

bool Publisher::try_publish_beside(const BesidePlan& plan, const BesidePayload& payload,
                                   std::uint32_t type, std::uint64_t user) noexcept {
  if (!consumers_.takes_beside() || !all_have_room()) return false;
  const MessageHeader header{.number = ++number_,
                             .ticks = trace::ticks_and_look(),
                             .user = user,
                             .type = type,
                             .slot = kNoSlot,
                             .kind = static_cast<std::uint8_t>(PayloadLocation::beside),
                             .count = payload.count};
  places_.note(plan.place, header.number);
  if (ConsumerState* const only = consumers_.only()) {
    only->publish_beside(header, plan.place, payload);
    only->wake();
  } else {
    for (const auto& consumer : consumers_.consumers())
      consumer->publish_beside(header, plan.place, payload);
    for (const auto& consumer : consumers_.consumers()) consumer->wake();
  }
  GANTRY_STEP(consumer_woken);
  GANTRY_CHECK_INVARIANTS(*this);
  return true;
}

// ---- with a slot, or for consumers that do not block -----------------------------------------

Result<bool> Publisher::announce(const Slot& slot) {
  AnnouncedSlabs& slabs = consumers_.slabs();
  const std::uint64_t knowing = slabs.who_know(slot.slabs);
  bool all = true;
  for (const auto& consumer : consumers_.consumers()) {
    if (consumer->is_cut || (knowing & consumer->bit()) != 0) continue;
    auto told = slabs.tell(consumer->index(), slot.slabs);
    if (!consumer->resources().blocks())
      continue;  // it is asked again when all is ready, and passed over then
    if (!told) return told;
    all = all && *told;
  }
  return all;
}

// It joined since announce(), or could not be told then. A consumer that cannot be told of memory
// cannot be sent anything in it.
bool Publisher::tell_at_last(ConsumerState& consumer, const Slot& slot) {
  const auto told = consumers_.slabs().tell(consumer.index(), slot.slabs);
  if (told && *told) return true;
  if (consumer.resources().blocks())
    consumers_.cut(consumer, Code::peer_gone, "cannot be told of new memory");
  return false;
}

// I12
Urgency Publisher::urgency_at(ConsumerState& consumer, Urgency asked) const noexcept {
  if (asked == Urgency::urgent) return asked;
  const auto fits = [&] { return 2 * (consumer.unread() + 1) <= consumers_.limits().slots; };
  return fits() || (consumer.refresh() && fits()) ? Urgency::quiet : Urgency::urgent;
}

void Publisher::publish(RecordToSend& message, Slot* slot) {
  SlotTable& slots = consumers_.slots();
  const Urgency asked = message.urgency;
  GANTRY_DEBUG_ASSERT(slot == nullptr || (slot->consumers & kSenderBit) != 0);
  message.header.number = ++number_;
  message.header.slot = slot == nullptr ? kNoSlot : slots.index_of(*slot);
  message.header.ticks = is_timed(message.header.slot, number_) ? trace::ticks_and_look() : 0;
  std::uint64_t knowing = ~std::uint64_t{0};
  if (slot != nullptr) {
    slot->number = number_;
    slot->ticks = message.header.ticks;
    slots.note_published(*slot);
    knowing = consumers_.slabs().who_know(slot->slabs);
  }
  bool anyone = false;
  for (const auto& consumer : consumers_.consumers()) {
    if (consumer->is_cut) continue;
    anyone = true;
    const bool has_room = ((knowing & consumer->bit()) != 0 || tell_at_last(*consumer, *slot)) &&
                          (consumer->resources().blocks() || may_have(*consumer, message.header));
    if (consumer->is_cut) continue;
    if (!has_room) {
      ++consumer->dropped;
      if (consumer->resources().policy == SlowConsumer::disconnect)
        consumers_.cut(*consumer, Code::peer_gone, "was too slow and has been disconnected");
      continue;
    }
    if (slot != nullptr) {
      slots.add(message.header.slot, consumer->bit());
      consumer->hold(message.header.slot);
    }
    message.urgency = urgency_at(*consumer, asked);
    consumer->publish(message);
    if (consumer->resources().drops_oldest()) take_back_surplus(*consumer);
  }
  if (!anyone) consumers_.kept().keep(message);
  consumers_.kept().remember(message);
  consumers_.retire_the_cut();
  GANTRY_CHECK_INVARIANTS(*this);
}

void Publisher::wake_holders(const Slot& slot) noexcept {
  for (const auto& consumer : consumers_.consumers())
    if ((slot.consumers & consumer->bit()) != 0) consumer->wake();
  GANTRY_STEP(holders_woken);
}

std::optional<std::uint64_t> Publisher::chunks_passed_of(const Slot& slot) noexcept {
  std::optional<std::uint64_t> fewest;
  if ((slot.consumers & kBacklogBit) != 0) fewest = 0;
  const auto index = consumers_.slots().index_of(slot);
  for (const auto& consumer : consumers_.consumers()) {
    if ((slot.consumers & consumer->bit()) == 0) continue;
    const std::uint64_t word =
        consumer->resources().page().passed[index].load(std::memory_order_seq_cst);  // [C]
    const std::uint64_t chunks = chunks_passed(word, slot.number);
    fewest = std::min(fewest.value_or(chunks), chunks);
  }
  return fewest;
}

// ---- consumers that do not block -------------------------------------------------------------

// A window would wait for one that joined after the mode was chosen.
bool Publisher::may_have(ConsumerState& consumer, const MessageHeader& message) {
  if ((message.kind & kStreamed) != 0 && consumer.resources().may_miss()) return false;
  const bool needs_slot = message.slot != kNoSlot;
  if (needs_slot && !leaves_slots() && !take_back_for_slots(consumer)) return false;
  if (consumer.has_room(needs_slot)) return true;
  if (!consumer.resources().drops_oldest() || !consumers_.look_at(consumer)) return false;
  take_back_surplus(consumer);  // of a history
  return !consumer.is_cut && consumer.may_have_newest(needs_slot);
}

// I5
bool Publisher::leaves_slots() noexcept {
  return std::popcount(consumers_.slots().used()) <= most_for_others() ||
         std::popcount(held_by_others()) < most_for_others();
}
int Publisher::most_for_others() const noexcept {
  const ConsumerSet::Limits& limits = consumers_.limits();
  return static_cast<int>(kMaxSlots - std::min(limits.slots + limits.history, kMaxSlots / 2));
}
std::uint64_t Publisher::held_by_others() noexcept {
  return consumers_.slots().needed_by(
      ~(kSenderBit | kBacklogBit | kHistoryBit | consumers_.who_block()));
}
// One that keeps up finds the newest, whatever the others hold: beside what it has in hand it gets
// a slot of those that are the sender's, of which half stay.
bool Publisher::may_have_one(const ConsumerState& consumer) noexcept {
  return consumer.resources().drops_oldest() &&
         std::popcount(consumers_.slots().needed_by(consumer.bit())) <= 1 &&
         std::popcount(held_by_others()) < (most_for_others() + int{kMaxSlots}) / 2;
}
bool Publisher::take_back_for_slots(ConsumerState& consumer) {
  while (!consumer.is_cut && consumer.resources().drops_oldest() && consumer.has_unread_slot() &&
         !leaves_slots())
    take_back_oldest(consumer);
  return !consumer.is_cut && (leaves_slots() || may_have_one(consumer));
}

// I4
void Publisher::take_back_surplus(ConsumerState& consumer) {
  while (!consumer.is_cut && consumer.has_too_many()) take_back_oldest(consumer);
}

void Publisher::take_back_oldest(ConsumerState& consumer) {
  GANTRY_DEBUG_ASSERT(consumer.resources().drops_oldest() && consumer.unread() != 0);
  const ConsumerState::TakenBack back = consumer.take_back_oldest();
  if (!back.is_honest)
    return consumers_.cut(consumer, Code::peer_misbehaved, ConsumerSet::kNonsense);
  if (!back.is_certain) {  // it is the consumer's; before claiming it the consumer gave others back
    consumers_.reclaim(consumer);
  } else if (needs(consumer, consumers_.slots(), back.header)) {
    consumer.let_go(back.header.slot);
    consumers_.slots().remove(back.header.slot, consumer.bit());
  }
  GANTRY_STEP(taken_back);
}

// Neither a consumer that must not hold up the others, nor what is kept for later ones, may do so
// with memory.
bool Publisher::take_back_for_memory() {
  SlotTable& slots = consumers_.slots();
  const std::uint64_t before = slots.freed();
  while (slots.freed() == before && consumers_.kept().forget_oldest()) {
  }
  for (const auto& consumer : consumers_.consumers())
    while (!consumer->is_cut && consumer->resources().drops_oldest() &&
           consumer->has_unread_slot() && slots.freed() == before)
      take_back_oldest(*consumer);
  consumers_.retire_the_cut();
  GANTRY_CHECK_INVARIANTS(*this);
  return slots.freed() != before;
}

#ifndef NDEBUG
void Publisher::check_invariants() noexcept {
  GANTRY_ASSERT(consumers_.kept().newest() <= number_);  // I8
  consumers_.check_invariants();
}
#endif

}  // namespace gantry
