#include "channel/consumers/consumer_set.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/event.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

bool is_streamed(const MessageHeader& header) {
  return (header.kind & kStreamed) != 0;
}

}  // namespace

// Consumers may read what they still hold for as long as they like: nobody else gets that memory. A
// fork's copy knows nothing of it, and the connection is the parent's.
ConsumerSet::~ConsumerSet() {
  if (!fork_guard_.is_this()) return;
  // Without heap, what they released since the last look is abandoned with the rest.
  static_cast<void>(guarded([this]() -> Result<void> {
    refresh();
    return {};
  }));
  for (const auto& consumer : consumers_)
    for_each_bit(consumer->holds(), [&](std::size_t slot) { slots_[slot].abandon(); });
  departed_.abandon();
}

// ---- consumers come and go -------------------------------------------------------------------

unsigned ConsumerSet::count() const noexcept {
  return static_cast<unsigned>(
      std::count_if(consumers_.begin(), consumers_.end(),
                    [](const auto& consumer) { return !consumer->is_cut; }));
}

bool ConsumerSet::all_block() const noexcept {
  return std::all_of(consumers_.begin(), consumers_.end(),
                     [](const auto& consumer) { return consumer->is_cut || consumer->blocks(); });
}

bool ConsumerSet::has_place() const noexcept {
  return count() < limits_.consumers && consumers_.size() < kMaxConsumers;
}

unsigned ConsumerSet::free_index() const noexcept {
  std::uint64_t taken = 0;
  for (const auto& consumer : consumers_) taken |= consumer->bit();
  return static_cast<unsigned>(std::countr_one(taken));
}

void ConsumerSet::find_only() noexcept {
  is_plain_ = !consumers_.empty() && limits_.history == 0;
  for (const auto& consumer : consumers_)
    is_plain_ = is_plain_ && !consumer->is_cut && consumer->blocks();
  only_ = is_plain_ && consumers_.size() == 1 ? consumers_.front().get() : nullptr;
}

std::string ConsumerSet::called(const ConsumerState& consumer) const {
  return fmt::format("the {} (process {})", limits_.reader, consumer.resources().pid);
}

void ConsumerSet::cut(ConsumerState& consumer, Code code, std::string why) {
  consumer.is_cut = any_cut_ = true;
  find_only();
  consumer.resources()
      .connection.stop_sending();  // it answers by hanging up, after it has read its ring
  if (count() == 0) lost_ = Error{code, std::move(why), ""};
}

void ConsumerSet::hang_up() noexcept {
  for (const auto& consumer : consumers_) consumer->resources().connection.hang_up();
  GANTRY_STEP(hung_up);
}

// ---- sleeping ------------------------------------------------------------------------------

std::vector<pollfd> ConsumerSet::fall_asleep(SharedFd event, std::uint64_t now_ns) {
  event_ = std::move(event);
  std::vector<pollfd> entries{{event_.get(), POLLIN, 0}};
  for_each_resources([&](const ConsumerResources& one) {
    if (!one.is_silent && !one.wake_limit.is_muted(now_ns))
      entries.push_back({one.wake_receiver.descriptor(), POLLIN, 0});
  });
  return entries;
}

std::chrono::nanoseconds ConsumerSet::until_mutes_end(std::uint64_t now_ns) {
  auto left = std::chrono::nanoseconds::max();
  for_each_resources([&](const ConsumerResources& one) {
    if (one.wake_limit.is_muted(now_ns))
      left = std::min(left, std::chrono::nanoseconds(one.wake_limit.over_ns() - now_ns));
  });
  return left;
}

// Consumers may have come and gone since it was made. One that has gone has no wake-up socket, and
// draining a new one does no harm, since the consumers are looked at next.
void ConsumerSet::drain_wakes(std::span<const pollfd> polled, std::uint64_t now_ns) {
  if (polled.front().revents != 0) drain(polled.front().fd);
  const auto has_rung = [polled](const ConsumerResources& one) {
    return std::any_of(polled.begin() + 1, polled.end(), [&](const pollfd& entry) {
      return entry.revents != 0 && entry.fd == one.wake_receiver.descriptor();
    });
  };
  for_each_resources([&](ConsumerResources& one) {
    if (has_rung(one)) one.is_silent = !one.wake_receiver.drain();
  });
  refresh();  // whoever rang has done before what it rang for
  for (const auto& one : consumers_)
    if (has_rung(one->resources())) one->note_ring(slabs_.confirmed(one->index()), now_ns);
  departed_.for_each([&](ConsumerState& one) {
    if (has_rung(one.resources())) one.note_ring(0, now_ns);
  });
}

void ConsumerSet::drain_wakes() {
  for_each_resources([](ConsumerResources& one) {
    if (!one.is_silent) one.is_silent = !one.wake_receiver.drain();
  });
}

void ConsumerSet::wake_producer() const noexcept {
  if (event_) ring(event_.get());
}

// ---- sending -------------------------------------------------------------------------------

void ConsumerSet::reclaim(ConsumerState& consumer) noexcept {
  for_each_bit(consumer.holds(), [&](std::size_t slot) {
    if (!consumer.has_released(slot, slots_[slot].number)) return;
    consumer.let_go(slot);
    slots_.remove(slot, consumer.bit());
  });
}

void ConsumerSet::refresh() {
  for (const auto& consumer : consumers_)
    if (!consumer->is_cut) static_cast<void>(look_at(*consumer));
  retire_the_cut();
  slabs_.keep_up();
  if (!departed_.is_empty()) forget_departed();
  if (lends_) lends_ = slots_.lends();
  GANTRY_CHECK_INVARIANTS(*this);
}

// False: it is cut off, as what it wrote is impossible.
bool ConsumerSet::look_at(ConsumerState& consumer) {
  const bool is_honest = consumer.refresh() && (!slabs_.is_unheard(consumer.index()) ||
                                                slabs_.heard(consumer.index(), consumer.heard()));
  if (is_honest)
    reclaim(consumer);
  else
    cut_liar(consumer);
  return !consumer.is_cut;
}

void ConsumerSet::cut_liar(ConsumerState& consumer) {
  cut(consumer, Code::peer_misbehaved, called(consumer) + " wrote nonsense into its page");
}

// For consumers that do not block. A window would wait for one that joined after the mode was
// chosen.
bool ConsumerSet::may_have(ConsumerState& consumer, const MessageHeader& message) {
  if (is_streamed(message) && consumer.may_miss()) return false;
  const bool needs_slot = message.slot != kNoSlot;
  if (needs_slot && !leaves_slots() && !take_back_for_slots(consumer)) return false;
  if (consumer.has_room(needs_slot)) return true;
  if (!consumer.drops_oldest() || !look_at(consumer)) return false;
  take_back_surplus(consumer);  // of a history
  return !consumer.is_cut && consumer.may_have_newest(needs_slot);
}

// I5
bool ConsumerSet::leaves_slots() const noexcept {
  return std::popcount(slots_.used()) <= most_for_others() ||
         std::popcount(held_by_others()) < most_for_others();
}
int ConsumerSet::most_for_others() const noexcept {
  return static_cast<int>(kMaxSlots - std::min(limits_.slots + limits_.history, kMaxSlots / 2));
}
std::uint64_t ConsumerSet::held_by_others() const noexcept {
  return slots_.needed_by(~(kSenderBit | kBacklogBit | kHistoryBit | who_block()));
}
// One that keeps up finds the newest, whatever the others hold: beside what it has in hand it gets
// a slot of those that are the sender's, of which half stay.
bool ConsumerSet::may_have_one(const ConsumerState& consumer) const noexcept {
  return consumer.drops_oldest() && std::popcount(slots_.needed_by(consumer.bit())) <= 1 &&
         std::popcount(held_by_others()) < (most_for_others() + int{kMaxSlots}) / 2;
}
bool ConsumerSet::take_back_for_slots(ConsumerState& consumer) {
  while (!consumer.is_cut && consumer.drops_oldest() && consumer.has_unread_slot() &&
         !leaves_slots())
    take_back_oldest(consumer);
  return !consumer.is_cut && (leaves_slots() || may_have_one(consumer));
}

// I4
void ConsumerSet::take_back_surplus(ConsumerState& consumer) {
  while (!consumer.is_cut && consumer.has_too_many()) take_back_oldest(consumer);
}

void ConsumerSet::take_back_oldest(ConsumerState& consumer) {
  const ConsumerState::TakenBack back = consumer.take_back_oldest();
  if (!back.is_honest) return cut_liar(consumer);
  if (!back.is_certain) {  // it is the consumer's; before claiming it the consumer gave others back
    reclaim(consumer);
  } else if (needs(consumer, back.header)) {
    consumer.let_go(back.header.slot);
    slots_.remove(back.header.slot, consumer.bit());
  }
  GANTRY_STEP(taken_back);
}

// Neither a consumer that must not hold up the others, nor what is kept for later ones, may do so
// with memory.
bool ConsumerSet::take_back_for_memory() {
  const std::uint64_t before = slots_.freed();
  while (!history_.empty() && slots_.freed() == before) forget_oldest();
  for (const auto& consumer : consumers_)
    while (!consumer->is_cut && consumer->drops_oldest() && consumer->has_unread_slot() &&
           slots_.freed() == before)
      take_back_oldest(*consumer);
  retire_the_cut();
  GANTRY_CHECK_INVARIANTS(*this);
  return slots_.freed() != before;
}

// Slots that count against the credits; slots of consumers with other policies, and of the history,
// do not.
std::uint64_t ConsumerSet::charged() const noexcept {
  if (only_ != nullptr) return slots_.used();  // I7: nobody else has any
  return slots_.needed_by(kSenderBit | kBacklogBit | who_block());
}

std::uint64_t ConsumerSet::who_block() const noexcept {
  std::uint64_t consumers = 0;
  for (const auto& consumer : consumers_)
    if (consumer->blocks()) consumers |= consumer->bit();
  return consumers;
}

bool ConsumerSet::may_send(bool needs_slot, Bytes bytes) const noexcept {
  bool anyone = false;
  for (const auto& consumer : consumers_) {
    if (consumer->is_cut) continue;
    anyone = true;
    if (consumer->blocks() && consumer->unread() >= limits_.slots) return false;
  }
  if (!anyone && backlog_.size() >= limits_.slots) return false;
  if (!needs_slot) return true;
  const std::uint64_t held = charged();
  if (slots_.used() == ~std::uint64_t{0}) return false;
  if (static_cast<unsigned>(std::popcount(held)) >= limits_.slots) return false;
  return limits_.bytes_in_flight == 0 || held == 0 ||
         slots_.bytes_of(held) + bytes <= limits_.bytes_in_flight;
}

Slot* ConsumerSet::take_slot(Bytes bytes, unsigned turns) noexcept {
  Slot* const slot = slots_.take(turns);
  if (slot != nullptr) slot->bytes = bytes;
  GANTRY_CHECK_INVARIANTS(*this);
  return slot;
}

void ConsumerSet::release(Slot& slot) noexcept {
  slots_.remove(slots_.index_of(slot), kSenderBit);
  GANTRY_CHECK_INVARIANTS(*this);
}

Result<bool> ConsumerSet::announce(const Slot& slot) {
  const std::uint64_t knowing = slabs_.who_know(slot.slabs);
  bool all = true;
  for (const auto& consumer : consumers_) {
    if (consumer->is_cut || (knowing & consumer->bit()) != 0) continue;
    auto told = slabs_.tell(consumer->index(), slot.slabs);
    if (!consumer->blocks()) continue;  // it is asked again when all is ready, and passed over then
    if (!told) return told;
    all = all && *told;
  }
  return all;
}

// It joined since announce(), or could not be told then. A consumer that cannot be told of memory
// cannot be sent anything in it.
bool ConsumerSet::tell_at_last(ConsumerState& consumer, const Slot& slot) {
  const auto told = slabs_.tell(consumer.index(), slot.slabs);
  if (told && *told) return true;
  if (consumer.blocks())
    cut(consumer, Code::peer_gone, called(consumer) + " cannot be told of new memory");
  return false;
}

ConsumerSet::BesidePlan ConsumerSet::plan_beside() {
  if (only_ != nullptr && only_->unread() >= limits_.slots) refresh();
  if (only_ == nullptr || only_->unread() >= limits_.slots) return {};
  return {only_->next_place(), only_->memory(), only_->id()};
}

bool ConsumerSet::try_publish_beside(const BesidePlan& plan, const BesidePayload& payload,
                                     std::uint32_t type, std::uint64_t user) noexcept {
  if (only_ == nullptr || only_->id() != plan.consumer) return false;
  GANTRY_DEBUG_ASSERT(only_->unread() < limits_.slots);
  MessageHeader header{};
  header.number = ++number_;
  header.ticks = trace::ticks_and_look();
  header.user = user;
  header.type = type;
  only_->publish_beside(header, payload);
  GANTRY_CHECK_INVARIANTS(*this);
  return true;
}

void ConsumerSet::publish(RecordToSend& message, Slot* slot) {
  message.header.number = ++number_;
  message.header.slot = slot == nullptr ? kNoSlot : slots_.index_of(*slot);
  if (slot != nullptr) slot->number = number_;
  message.header.ticks = is_timed(message.header.slot, number_) ? trace::ticks_and_look() : 0;
  if (slot != nullptr) slot->ticks = message.header.ticks;
  if (slot != nullptr) lends_ = lends_ || slot->lends();
  const std::uint64_t knowing = slot == nullptr ? ~std::uint64_t{0} : slabs_.who_know(slot->slabs);
  bool anyone = false;
  for (const auto& consumer : consumers_) {
    if (consumer->is_cut) continue;
    anyone = true;
    const bool has_room = ((knowing & consumer->bit()) != 0 || tell_at_last(*consumer, *slot)) &&
                          (consumer->blocks() || may_have(*consumer, message.header));
    if (consumer->is_cut) continue;
    if (!has_room) {
      ++consumer->dropped;
      if (consumer->resources().policy == SlowConsumer::disconnect)
        cut(*consumer, Code::peer_gone,
            called(*consumer) + " was too slow and has been disconnected");
      continue;
    }
    if (slot != nullptr) {
      slots_.add(message.header.slot, consumer->bit());
      consumer->hold(message.header.slot);
    }
    consumer->publish(message);
    if (consumer->drops_oldest()) take_back_surplus(*consumer);
  }
  if (!anyone) {
    message.write(backlog_.emplace_back());
    if (slot != nullptr) slots_.add(message.header.slot, kBacklogBit);
    GANTRY_STEP(kept_in_backlog);
  }
  if (limits_.history != 0) keep_history(message, slot);
  retire_the_cut();
  GANTRY_CHECK_INVARIANTS(*this);
}

void ConsumerSet::keep_history(const RecordToSend& message, Slot* slot) {
  if ((message.header.kind & kStreamed) != 0) return;
  message.write(history_.emplace_back());
  if (slot != nullptr) slots_.add(message.header.slot, kHistoryBit);
  GANTRY_STEP(kept_in_history);
  if (history_.size() > limits_.history) forget_oldest();
}

void ConsumerSet::forget_oldest() {
  if (history_.front().header.slot != kNoSlot)
    slots_.remove(history_.front().header.slot, kHistoryBit);
  history_.pop_front();
}

void ConsumerSet::wake_holders(const Slot& slot) noexcept {
  for (const auto& consumer : consumers_)
    if ((slot.consumers & consumer->bit()) != 0) consumer->wake();
  GANTRY_STEP(holders_woken);
}

std::optional<std::uint64_t> ConsumerSet::chunks_passed_of(const Slot& slot) const noexcept {
  std::optional<std::uint64_t> fewest;
  if ((slot.consumers & kBacklogBit) != 0) fewest = 0;
  const auto index = slots_.index_of(slot);
  for (const auto& consumer : consumers_) {
    if ((slot.consumers & consumer->bit()) == 0) continue;
    const std::uint64_t word =
        consumer->resources().page().passed[index].load(std::memory_order_seq_cst);  // [C]
    const std::uint64_t chunks = chunks_passed(word, slot.number);
    fewest = std::min(fewest.value_or(chunks), chunks);
  }
  return fewest;
}

void ConsumerSet::end_stream() {
  if (ended_) return;
  ended_ = true;
  for (const auto& consumer : consumers_) consumer->end_stream();
  GANTRY_STEP(end_stored);
}

}  // namespace gantry
