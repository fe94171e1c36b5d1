#include "channel/readership.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/event.hpp"
#include "channel/step.hpp"

namespace gantry {
namespace {

bool is_streamed(const MessageHeader& header) {
  return (header.kind & kStreamed) != 0;
}

}  // namespace

// What consumers still hold they may read for as long as they like: nobody else gets that memory.
// A fork's copy knows nothing of that, and the line is the parent's.
Readership::~Readership() {
  if (!maker_.is_this()) return;
  // Without a heap what they released since the last look is abandoned with the rest.
  static_cast<void>(guarded([this]() -> Result<void> {
    refresh();
    return {};
  }));
  for (const auto& reader : readers_)
    for_each_bit(reader->holds(), [&](std::size_t slot) { slots_[slot].abandon(); });
  departed_.abandon();
}

// ---- readers come and go -------------------------------------------------------------------

unsigned Readership::count() const noexcept {
  return static_cast<unsigned>(std::count_if(readers_.begin(), readers_.end(),
                                             [](const auto& reader) { return !reader->is_cut; }));
}

bool Readership::all_block() const noexcept {
  return std::all_of(readers_.begin(), readers_.end(),
                     [](const auto& reader) { return reader->is_cut || reader->blocks(); });
}

bool Readership::has_place() const noexcept {
  return count() < limits_.consumers && readers_.size() < kMaxConsumers;
}

unsigned Readership::free_index() const noexcept {
  std::uint64_t taken = 0;
  for (const auto& reader : readers_) taken |= reader->bit();
  return static_cast<unsigned>(std::countr_one(taken));
}

void Readership::find_only() noexcept {
  Reader* const reader = readers_.size() == 1 ? readers_.front().get() : nullptr;
  const bool is_plain =
      reader != nullptr && !reader->is_cut && reader->blocks() && limits_.history == 0;
  only_ = is_plain ? reader : nullptr;
}

void Readership::cut(Reader& reader, Code code, std::string why) {
  reader.is_cut = any_cut_ = true;
  find_only();
  reader.attached().connection.stop_sending();  // it answers by its own end, having read its ring
  if (count() == 0) lost_ = Error{code, std::move(why), ""};
}

void Readership::hang_up() noexcept {
  for (const auto& reader : readers_) reader->attached().connection.hang_up();
  GANTRY_STEP(hung_up);
}

// ---- sleeping ------------------------------------------------------------------------------

std::vector<pollfd> Readership::fall_asleep(SharedFd event) {
  event_ = std::move(event);
  std::vector<pollfd> entries{{event_.get(), POLLIN, 0}};
  for_each_attached([&](const Attached& one) {
    if (!one.is_silent) entries.push_back({one.bell.descriptor(), POLLIN, 0});
  });
  return entries;
}

// Readers may have come and gone since it was made: who is gone has no bell, and to drain one that
// is new does no harm, as the readers are looked at next.
void Readership::drain_bells(std::span<const pollfd> polled) {
  if (polled.front().revents != 0) drain(polled.front().fd);
  const auto has_rung = [polled](const Attached& one) {
    return std::any_of(polled.begin() + 1, polled.end(), [&](const pollfd& entry) {
      return entry.revents != 0 && entry.fd == one.bell.descriptor();
    });
  };
  for_each_attached([&](Attached& one) {
    if (has_rung(one)) one.is_silent = !one.bell.drain();
  });
}

void Readership::drain_bells() {
  for_each_attached([](Attached& one) {
    if (!one.is_silent) one.is_silent = !one.bell.drain();
  });
}

void Readership::wake_sender() const noexcept {
  if (event_) ring(event_.get());
}

// ---- sending -------------------------------------------------------------------------------

void Readership::reclaim(Reader& reader) noexcept {
  for_each_bit(reader.holds(), [&](std::size_t slot) {
    if (!reader.has_released(slot, slots_[slot].number)) return;
    reader.let_go(slot);
    slots_.remove(slot, reader.bit());
  });
}

void Readership::refresh() {
  for (const auto& reader : readers_)
    if (!reader->is_cut) static_cast<void>(look_at(*reader));
  retire_the_cut();
  slabs_.keep_up();
  if (!departed_.is_empty()) forget_departed();
}

// False: it is cut off, as what it wrote cannot be.
bool Readership::look_at(Reader& reader) {
  const bool is_honest = reader.refresh() && (!slabs_.is_unheard(reader.index()) ||
                                              slabs_.heard(reader.index(), reader.heard()));
  if (is_honest)
    reclaim(reader);
  else
    cut_liar(reader);
  return !reader.is_cut;
}

void Readership::cut_liar(Reader& reader) {
  cut(reader, Code::peer_misbehaved,
      fmt::format("the consumer (process {}) wrote nonsense into its page", reader.attached().pid));
}

// Of readers that do not block. A window would wait for one that came since the mode was chosen.
bool Readership::may_have(Reader& reader, const MessageHeader& message) {
  if (is_streamed(message) && reader.may_miss()) return false;
  const bool needs_slot = message.slot != kNoSlot;
  if (needs_slot && !leaves_slots() && !take_back_for_slots(reader)) return false;
  if (reader.has_room(needs_slot)) return true;
  if (!reader.drops_oldest() || !look_at(reader)) return false;
  take_back_surplus(reader);  // of a history
  return !reader.is_cut && reader.may_have_newest(needs_slot);
}

// I5
bool Readership::leaves_slots() const noexcept {
  const unsigned most = kMaxSlots - std::min(limits_.slots + limits_.history, kMaxSlots / 2);
  const auto count = [](std::uint64_t slots) {
    return static_cast<unsigned>(std::popcount(slots));
  };
  return count(slots_.used()) <= most ||
         count(slots_.needed_by(~(kSenderBit | kBacklogBit | kHistoryBit | who_block()))) < most;
}
bool Readership::take_back_for_slots(Reader& reader) {
  while (!reader.is_cut && reader.drops_oldest() && reader.has_unread_slot() && !leaves_slots())
    take_back_oldest(reader);
  return !reader.is_cut && leaves_slots();
}

// I4
void Readership::take_back_surplus(Reader& reader) {
  while (!reader.is_cut && reader.has_too_many()) take_back_oldest(reader);
}

void Readership::take_back_oldest(Reader& reader) {
  const Reader::TakenBack back = reader.take_back_oldest();
  if (!back.is_honest) return cut_liar(reader);
  if (!back.is_certain) {  // it is the reader's; before it claimed that it gave others back
    reclaim(reader);
  } else if (needs(reader, back.header)) {
    reader.let_go(back.header.slot);
    slots_.remove(back.header.slot, reader.bit());
  }
  GANTRY_STEP(taken_back);
}

// Whoever is to hold nobody up does not do so with memory either, nor does what is kept for those
// who may come.
bool Readership::take_back_for_memory() {
  const std::uint64_t before = slots_.freed();
  while (!history_.empty() && slots_.freed() == before) forget_oldest();
  for (const auto& reader : readers_)
    while (!reader->is_cut && reader->drops_oldest() && reader->has_unread_slot() &&
           slots_.freed() == before)
      take_back_oldest(*reader);
  retire_the_cut();
  return slots_.freed() != before;
}

// Slots that count against the credits: those of readers with other policies, and of the history,
// are their own affair.
std::uint64_t Readership::charged() const noexcept {
  return slots_.needed_by(kSenderBit | kBacklogBit | who_block());
}

std::uint64_t Readership::who_block() const noexcept {
  std::uint64_t readers = 0;
  for (const auto& reader : readers_)
    if (reader->blocks()) readers |= reader->bit();
  return readers;
}

bool Readership::may_send(bool needs_slot, Bytes bytes) const noexcept {
  bool anyone = false;
  for (const auto& reader : readers_) {
    if (reader->is_cut) continue;
    anyone = true;
    if (reader->blocks() && reader->unread() >= limits_.slots) return false;
  }
  if (!anyone && backlog_.size() >= limits_.slots) return false;
  if (!needs_slot) return true;
  const std::uint64_t held = charged();
  if (slots_.used() == ~std::uint64_t{0}) return false;
  if (static_cast<unsigned>(std::popcount(held)) >= limits_.slots) return false;
  return limits_.bytes_in_flight == 0 || held == 0 ||
         slots_.bytes_of(held) + bytes <= limits_.bytes_in_flight;
}

Slot* Readership::take_slot(Bytes bytes) noexcept {
  Slot* const slot = slots_.take();
  if (slot != nullptr) slot->bytes = bytes;
  return slot;
}

void Readership::release(Slot& slot) noexcept {
  slots_.remove(slots_.index_of(slot), kSenderBit);
}

Result<bool> Readership::announce(const Slot& slot) {
  const std::uint64_t knowing = slabs_.who_know(slot.slabs);
  bool all = true;
  for (const auto& reader : readers_) {
    if (reader->is_cut || (knowing & reader->bit()) != 0) continue;
    auto told = slabs_.tell(reader->index(), slot.slabs);
    if (!reader->blocks()) continue;  // it is asked again, and passed over, when all is ready
    if (!told) return told;
    all = all && *told;
  }
  return all;
}

// It joined since announce(), or could not be told then. Who cannot be told of memory cannot be
// sent anything in it.
bool Readership::tell_at_last(Reader& reader, const Slot& slot) {
  const auto told = slabs_.tell(reader.index(), slot.slabs);
  if (told && *told) return true;
  if (reader.blocks())
    cut(reader, Code::peer_gone,
        fmt::format("the consumer (process {}) cannot be told of new memory",
                    reader.attached().pid));
  return false;
}

void Readership::publish(Outgoing& message, Slot* slot) {
  message.header.number = ++number_;
  message.header.slot = slot == nullptr ? kNoSlot : slots_.index_of(*slot);
  if (slot != nullptr) slot->number = number_;
  message.header.ticks = is_timed(message.header.slot, number_) ? read_ticks() : 0;
  if (slot != nullptr) slot->ticks = message.header.ticks;
  const std::uint64_t knowing = slot == nullptr ? ~std::uint64_t{0} : slabs_.who_know(slot->slabs);
  bool anyone = false;
  for (const auto& reader : readers_) {
    if (reader->is_cut) continue;
    anyone = true;
    const bool has_room = ((knowing & reader->bit()) != 0 || tell_at_last(*reader, *slot)) &&
                          (reader->blocks() || may_have(*reader, message.header));
    if (reader->is_cut) continue;
    if (!has_room) {
      ++reader->dropped;
      if (reader->attached().policy == SlowReader::disconnect)
        cut(*reader, Code::peer_gone,
            fmt::format("the consumer (process {}) was too slow and has been disconnected",
                        reader->attached().pid));
      continue;
    }
    if (slot != nullptr) {
      slots_.add(message.header.slot, reader->bit());
      reader->hold(message.header.slot);
    }
    reader->publish(message);
    if (reader->drops_oldest()) take_back_surplus(*reader);
  }
  if (!anyone) {
    message.write(backlog_.emplace_back());
    if (slot != nullptr) slots_.add(message.header.slot, kBacklogBit);
    GANTRY_STEP(kept_in_backlog);
  }
  if (limits_.history != 0) keep_history(message, slot);
  retire_the_cut();
}

void Readership::keep_history(const Outgoing& message, Slot* slot) {
  if ((message.header.kind & kStreamed) != 0) return;
  message.write(history_.emplace_back());
  if (slot != nullptr) slots_.add(message.header.slot, kHistoryBit);
  GANTRY_STEP(kept_in_history);
  if (history_.size() > limits_.history) forget_oldest();
}

void Readership::forget_oldest() {
  if (history_.front().header.slot != kNoSlot)
    slots_.remove(history_.front().header.slot, kHistoryBit);
  history_.pop_front();
}

void Readership::wake_holders(const Slot& slot) noexcept {
  for (const auto& reader : readers_)
    if ((slot.readers & reader->bit()) != 0) reader->wake();
  GANTRY_STEP(holders_woken);
}

std::optional<std::uint64_t> Readership::chunks_passed_of(const Slot& slot) const noexcept {
  std::optional<std::uint64_t> fewest;
  if ((slot.readers & kBacklogBit) != 0) fewest = 0;
  const auto index = slots_.index_of(slot);
  for (const auto& reader : readers_) {
    if ((slot.readers & reader->bit()) == 0) continue;
    const std::uint64_t word =
        reader->attached().page().passed[index].load(std::memory_order_seq_cst);  // [C]
    const std::uint64_t chunks = chunks_passed(word, slot.number);
    fewest = std::min(fewest.value_or(chunks), chunks);
  }
  return fewest;
}

void Readership::end_stream() {
  if (ended_) return;
  ended_ = true;
  for (const auto& reader : readers_) reader->end_stream();
  GANTRY_STEP(end_stored);
}

}  // namespace gantry
