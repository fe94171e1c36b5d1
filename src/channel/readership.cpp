#include "channel/readership.hpp"

#include <algorithm>
#include <map>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/event.hpp"
#include "channel/step.hpp"

namespace gantry {
namespace {

bool has_slot(const MessageRecord& record) {
  return record.header.slot != kNoSlot;
}
bool is_streamed(const MessageHeader& header) {
  return (header.kind & kStreamed) != 0;
}

}  // namespace

// What consumers still hold they may read for as long as they like: nobody else gets that memory.
Readership::~Readership() {
  refresh();
  for (const auto& reader : readers_)
    for_each_bit(reader->holds(), [&](std::size_t slot) { slots_[slot].abandon(); });
  for (Departed& one : departed_)
    for (auto& [slot, memory] : one.memory) memory.abandon();
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

Reader* Readership::find(unsigned index) const noexcept {
  const auto found = std::find_if(readers_.begin(), readers_.end(),
                                  [index](const auto& reader) { return reader->index() == index; });
  return found == readers_.end() ? nullptr : found->get();
}

std::vector<int> Readership::sockets() const {
  std::vector<int> all;
  for (const auto& reader : readers_)
    if (!reader->is_cut) all.push_back(reader->attached().connection.mouth());
  return all;
}

Result<unsigned> Readership::admit(std::unique_ptr<Attached> attached, Region page) {
  unsigned index = 0;
  while (find(index) != nullptr) ++index;
  GANTRY_TRY(bells_.hang(attached->bell));
  const int socket = attached->connection.mouth();
  GANTRY_TRY(slabs_.introduce(socket));
  GANTRY_STEP(slabs_introduced);
  auto reader =
      std::make_unique<Reader>(index, std::move(attached), std::move(page), limits_.slots);
  hand_over_kept(*reader);
  GANTRY_STEP(kept_handed_over);
  if (ended_) reader->end_stream();
  readers_.push_back(std::move(reader));
  find_only();
  anyone_came_ = true;
  lost_.reset();
  // One that is gone already is found out by the doorman; it is in none the less.
  WirePacket ready;
  ready.kind = PacketKind::ready;
  static_cast<void>(send_wire(socket, ready));
  GANTRY_STEP(consumer_admitted);
  return index;
}

void Readership::give(Reader& reader, const MessageRecord& record) {
  reader.publish(record);
  if (!has_slot(record)) return;
  slots_.add(record.header.slot, reader.bit());
  reader.hold(record.header.slot);
}

// The history, and what waited for a reader if there was none: by their numbers, each once.
void Readership::hand_over_kept(Reader& reader) {
  std::map<std::uint64_t, const MessageRecord*> kept;
  for (const MessageRecord& record : history_) kept[record.header.number] = &record;
  for (const MessageRecord& record : backlog_) kept[record.header.number] = &record;
  for (const auto& [number, record] : kept) give(reader, *record);
  for (const MessageRecord& record : backlog_)
    if (has_slot(record)) slots_.remove(record.header.slot, kBacklogBit);
  backlog_.clear();
}

void Readership::left(unsigned index, bool died) {
  const auto found = std::find_if(readers_.begin(), readers_.end(),
                                  [index](const auto& reader) { return reader->index() == index; });
  if (found == readers_.end()) return;
  std::unique_ptr<Reader> reader = std::move(*found);
  readers_.erase(found);
  find_only();
  const bool honest = reader->refresh();
  reclaim(*reader);
  if (count() == 0) {
    if (!reader->is_cut && honest) keep_for_successor(*reader);
    if (!lost_)
      lost_ = Error{Code::peer_gone,
                    fmt::format("the consumer (process {}) is gone", reader->attached().pid), ""};
  }
  Reader& gone = *reader;
  const std::uint64_t held = gone.holds();
  const std::uint64_t bit = gone.bit();
  if (!died) depart(std::move(reader));
  for_each_bit(held, [&](std::size_t slot) { slots_.remove(slot, bit); });
}

// Whether it still needs what was lent for that message. A reader may release what it has not
// taken.
bool Readership::needs(const Reader& reader, const MessageHeader& header) const noexcept {
  return header.slot != kNoSlot && (reader.holds() >> header.slot & 1) != 0 &&
         slots_[header.slot].number == header.number;
}

// A streamed message cannot be had again: its first chunks have passed.
void Readership::keep_for_successor(const Reader& reader) {
  for (const MessageRecord& record : reader.unread_records()) {
    if (is_streamed(record.header)) continue;
    if (has_slot(record) && !needs(reader, record.header)) continue;  // it gave it back unseen
    backlog_.push_back(record);
    if (has_slot(record)) slots_.add(record.header.slot, kBacklogBit);
  }
}

// I3. Of what it had not taken it knows nothing.
void Readership::depart(std::unique_ptr<Reader> reader) {
  for (const MessageRecord& record : reader->unread_records())
    if (has_slot(record) && needs(*reader, record.header)) {
      slots_.remove(record.header.slot, reader->bit());
      reader->let_go(record.header.slot);
    }
  if (reader->holds() == 0) return;
  Departed departed;
  for_each_bit(reader->holds(),
               [&](std::size_t slot) { departed.memory.emplace_back(slot, slots_[slot].share()); });
  departed.reader = std::move(reader);
  departed.reader->attached().connection.reset();  // it sees that we know
  departed.reader->attached().pull.reset();  // its own bell it may still ring, for what it holds
  departed_.push_back(std::move(departed));
}

unsigned Readership::departed_of(pid_t pid) const noexcept {
  return static_cast<unsigned>(
      std::count_if(departed_.begin(), departed_.end(),
                    [pid](const Departed& one) { return one.reader->attached().pid == pid; }));
}

void Readership::forget_departed() noexcept {
  std::erase_if(departed_, [this](Departed& one) {
    const Attached& attached = one.reader->attached();
    const bool died = attached.pidfd && would_pass(attached.pidfd.get(), POLLIN);
    departures_ += std::erase_if(one.memory, [&](const auto& held) {
      return died || one.reader->has_released(held.first, held.second.number);
    });
    return one.memory.empty();
  });
}

void Readership::find_only() noexcept {
  Reader* const reader = readers_.size() == 1 ? readers_.front().get() : nullptr;
  const bool is_plain =
      reader != nullptr && !reader->is_cut && reader->blocks() && limits_.history == 0;
  only_ = is_plain ? reader : nullptr;
}

void Readership::cut(Reader& reader, Code code, std::string why) {
  reader.is_cut = true;
  find_only();
  reader.attached().connection.hang_up();
  if (count() == 0) lost_ = Error{code, std::move(why), ""};
}

void Readership::hang_up() noexcept {
  for (const auto& reader : readers_) reader->attached().connection.hang_up();
  GANTRY_STEP(hung_up);
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
  if (!departed_.empty()) forget_departed();
}

// False: it is cut off, as what it wrote cannot be.
bool Readership::look_at(Reader& reader) {
  if (reader.refresh())
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
  if (reader.has_room(needs_slot)) return true;
  if (!reader.drops_oldest() || !look_at(reader)) return false;
  take_back_surplus(reader);  // of a history
  return !reader.is_cut && reader.may_have_newest(needs_slot);
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

// Whoever is to hold nobody up does not do so with memory either.
bool Readership::take_back_for_memory() {
  const std::uint64_t before = slots_.freed();
  for (const auto& reader : readers_)
    while (!reader->is_cut && reader->drops_oldest() && reader->has_unread_slot() &&
           slots_.freed() == before)
      take_back_oldest(*reader);
  return slots_.freed() != before;
}

// Slots that count against the credits: those of readers with other policies, and of the history,
// are their own affair.
std::uint64_t Readership::charged() const noexcept {
  std::uint64_t readers = kSenderBit | kBacklogBit;
  for (const auto& reader : readers_)
    if (reader->blocks()) readers |= reader->bit();
  return slots_.needed_by(readers);
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

// Who cannot be told of memory cannot be sent anything in it.
Result<void> Readership::announce(std::uint32_t slab) {
  GANTRY_ASSIGN(const std::vector<int> deaf, slabs_.announce(slab, sockets()));
  for (const auto& reader : readers_)
    if (!reader->is_cut &&
        std::find(deaf.begin(), deaf.end(), reader->attached().connection.mouth()) != deaf.end())
      cut(*reader, Code::peer_gone,
          fmt::format("the consumer (process {}) cannot be told of new memory",
                      reader->attached().pid));
  return {};
}

void Readership::publish(Outgoing& message, Slot* slot) {
  message.header.number = ++number_;
  message.header.slot = slot == nullptr ? kNoSlot : slots_.index_of(*slot);
  if (slot != nullptr) slot->number = number_;
  message.header.ticks = is_timed(message.header.slot, number_) ? read_ticks() : 0;
  if (slot != nullptr) slot->ticks = message.header.ticks;
  bool anyone = false;
  for (const auto& reader : readers_) {
    if (reader->is_cut) continue;
    anyone = true;
    const bool has_room = reader->blocks() || may_have(*reader, message.header);
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
}

void Readership::keep_history(const Outgoing& message, Slot* slot) {
  if ((message.header.kind & kStreamed) != 0) return;
  message.write(history_.emplace_back());
  if (slot != nullptr) slots_.add(message.header.slot, kHistoryBit);
  GANTRY_STEP(kept_in_history);
  if (history_.size() <= limits_.history) return;
  if (has_slot(history_.front())) slots_.remove(history_.front().header.slot, kHistoryBit);
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

// ---- looking -------------------------------------------------------------------------------

std::uint64_t Readership::untaken() const noexcept {
  std::uint64_t most = backlog_.size();
  for (const auto& reader : readers_)
    if (!reader->is_cut) most = std::max(most, reader->unread());
  return most;
}

bool Readership::all_taken() const noexcept {
  return anyone_came_ && untaken() == 0;
}

unsigned Readership::slots_held() const noexcept {
  return static_cast<unsigned>(std::popcount(slots_.used()));
}

}  // namespace gantry
