#include <algorithm>
#include <cstring>
#include <map>

#include "channel/readership.hpp"
#include "channel/step.hpp"

// How readers come and go: what waits for them, and what they keep.
namespace gantry {
namespace {

bool has_slot(const MessageRecord& record) {
  return record.header.slot != kNoSlot;
}
// Of a streamed message: a chunk took the place of another.
bool outgrew_window(const MessageRecord& record) {
  if ((record.header.kind & kStreamed) == 0) return false;
  Place place;  // NOLINT: copied
  std::memcpy(&place, record.body.data(), sizeof place);
  return place.bytes > place.window_bytes;
}

}  // namespace

Result<unsigned> Readership::admit(std::unique_ptr<Attached> attached, Region page) {
  const int socket = attached->connection.mouth();
  const unsigned index = free_index();
  slabs_.add(index, socket);
  if (auto told = slabs_.introduce(index, slabs_of_kept()); !told) {
    slabs_.remove(index);
    if (is_own_trouble(told.error().code)) refuse(socket, told.error().code);
    return tl::unexpected(std::move(told).error());
  }
  GANTRY_STEP(slabs_introduced);
  auto reader = std::make_unique<Reader>(++last_id_, index, std::move(attached), std::move(page),
                                         limits_.slots);
  hand_over_kept(*reader);
  GANTRY_STEP(kept_handed_over);
  if (ended_) reader->end_stream();
  readers_.push_back(std::move(reader));
  find_only();
  anyone_came_ = true;
  lost_.reset();
  // One that is gone already is found out by the acceptor; it is in none the less.
  WirePacket ready;
  ready.kind = PacketKind::ready;
  static_cast<void>(send_wire(socket, ready));
  GANTRY_STEP(consumer_admitted);
  return last_id_;
}

void Readership::give(Reader& reader, const MessageRecord& record) {
  reader.publish(record);
  if (!has_slot(record)) return;
  slots_.add(record.header.slot, reader.bit());
  reader.hold(record.header.slot);
}

// Where hand_over_kept()'s messages lie.
std::vector<std::uint32_t> Readership::slabs_of_kept() const {
  std::vector<std::uint32_t> slabs;
  const auto add = [&](const MessageRecord& record) {
    if (!has_slot(record)) return;
    const auto& more = slots_[record.header.slot].slabs;
    slabs.insert(slabs.end(), more.begin(), more.end());
  };
  std::for_each(history_.begin(), history_.end(), add);
  std::for_each(backlog_.begin(), backlog_.end(), add);
  return slabs;
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

void Readership::left(unsigned id) {
  const auto found = std::find_if(readers_.begin(), readers_.end(),
                                  [id](const auto& reader) { return reader->id() == id; });
  if (found == readers_.end()) return departed_.confirm(id);
  std::unique_ptr<Reader> reader = std::move(*found);
  readers_.erase(found);
  slabs_.remove(reader->index());
  find_only();
  const bool honest = reader->refresh();
  reclaim(*reader);
  note_missed(*reader);
  if (count() == 0) {
    if (honest) keep_for_successor(*reader);
    if (!lost_)
      lost_ = Error{Code::peer_gone,
                    fmt::format("the consumer (process {}) is gone", reader->attached().pid), ""};
  }
  let_go_of_unread(*reader);
  if (!reader->attached().is_gone()) return depart(std::move(reader), true);
  for_each_bit(reader->holds(), [&](std::size_t slot) { slots_.remove(slot, reader->bit()); });
}

// Whether it still needs what was lent for that message. A reader may release what it has not
// taken.
bool Readership::needs(const Reader& reader, const MessageHeader& header) const noexcept {
  return header.slot != kNoSlot && (reader.holds() >> header.slot & 1) != 0 &&
         slots_[header.slot].number == header.number;
}

// A streamed message can be had again only where its window holds all of it. Else its sender, which
// waits for the window, is told when nobody else has it either.
void Readership::note_missed(const Reader& reader) {
  for (const MessageRecord& record : reader.unread_records())
    if (outgrew_window(record) && needs(reader, record.header))
      slots_[record.header.slot].was_missed = true;
}

void Readership::keep_for_successor(const Reader& reader) {
  for (const MessageRecord& record : reader.unread_records()) {
    if (outgrew_window(record)) continue;
    if (has_slot(record) && !needs(reader, record.header)) continue;  // it gave it back unseen
    backlog_.push_back(record);
    if (has_slot(record)) slots_.add(record.header.slot, kBacklogBit);
  }
}

// Of what it had not taken it knows nothing, now that it says itself that it takes no more.
void Readership::let_go_of_unread(Reader& reader) {
  for (const MessageRecord& record : reader.unread_records())
    if (has_slot(record) && needs(reader, record.header)) {
      slots_.remove(record.header.slot, reader.bit());
      reader.let_go(record.header.slot);
    }
}

// I3
void Readership::depart(std::unique_ptr<Reader> reader, bool confirmed) {
  const std::uint64_t held = reader->holds();
  const std::uint64_t bit = reader->bit();
  if (held != 0 || !confirmed) departed_.add(std::move(reader), slots_, confirmed);
  for_each_bit(held, [&](std::size_t slot) { slots_.remove(slot, bit); });
  GANTRY_STEP(reader_departed);
}

// After each round of looks at the readers: those that were cut in it.
void Readership::retire_the_cut() {
  if (!std::exchange(any_cut_, false)) return;
  for (std::size_t i = readers_.size(); i-- > 0;) {
    if (!readers_[i]->is_cut) continue;
    std::unique_ptr<Reader> reader = std::move(readers_[i]);
    readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(i));
    slabs_.remove(reader->index());
    note_missed(*reader);
    depart(std::move(reader), false);
  }
  find_only();
}

}  // namespace gantry
