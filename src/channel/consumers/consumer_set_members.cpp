#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "channel/consumers/consumer_set.hpp"
#include "channel/wire/step.hpp"

// How consumers come and go: what waits for them, and what they keep.
namespace gantry {
namespace {

bool has_slot(const MessageRecord& record) {
  return record.header.slot != kNoSlot;
}
// True for a streamed message if a chunk took the place of another.
bool outgrew_window(const MessageRecord& record) {
  if ((record.header.kind & kStreamed) == 0) return false;
  Place place;  // NOLINT: copied
  std::memcpy(&place, record.body.data(), sizeof place);
  return place.bytes > place.window_bytes;
}

}  // namespace

Result<unsigned> ConsumerSet::admit(std::unique_ptr<ConsumerResources> resources, Region page) {
  const int socket = resources->connection.send_fd();
  const unsigned index = free_index();
  slabs_.add(index, socket);
  if (auto told = slabs_.introduce(index, slabs_of_kept()); !told) {
    slabs_.remove(index);
    tell_own_trouble(socket, told.error().code);
    return tl::unexpected(std::move(told).error());
  }
  GANTRY_STEP(slabs_introduced);
  auto consumer = std::make_unique<ConsumerState>(++last_id_, index, std::move(resources),
                                                  std::move(page), limits_.slots);
  hand_over_kept(*consumer);
  GANTRY_STEP(kept_handed_over);
  if (ended_) consumer->end_stream();
  consumers_.push_back(std::move(consumer));
  find_only();
  anyone_came_ = true;
  lost_.reset();
  trouble_.reset();
  // The acceptor finds out about one that is gone already; it has joined nevertheless.
  WirePacket ready;
  ready.kind = PacketKind::ready;
  static_cast<void>(send_wire(socket, ready));
  GANTRY_STEP(consumer_admitted);
  GANTRY_CHECK_INVARIANTS(*this);
  return last_id_;
}

// `ring`: of a payload beside its record.
void ConsumerSet::give(ConsumerState& consumer, const MessageRecord& record, const Region* ring) {
  if (ring != nullptr) {
    const ConstByteSpan payload = ConsumerState::beside(*ring, record);
    std::memcpy(consumer.next_place().data(), payload.data(), payload.size());
    return consumer.publish_beside(record.header, BesidePayload::read(record));
  }
  consumer.publish(record);
  if (!has_slot(record)) return;
  slots_.add(record.header.slot, consumer.bit());
  consumer.hold(record.header.slot);
}

// The slabs of hand_over_kept()'s messages.
std::vector<std::uint32_t> ConsumerSet::slabs_of_kept() const {
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

// Hands over the backlog if there was no consumer, and the newest of the history, as far as there
// is room: a message for which the sender has taken a slot comes without asking, and must find its
// cell. In order of their numbers, each once. I9
void ConsumerSet::hand_over_kept(ConsumerState& consumer) {
  const std::size_t coming = static_cast<std::size_t>(std::popcount(slots_.needed_by(kSenderBit)));
  const std::size_t room = cells_for(limits_.slots) - coming;
  struct Kept {
    const MessageRecord* record = nullptr;
    const Region* ring = nullptr;
  };
  std::map<std::uint64_t, Kept> kept;
  for (const KeptRecord& record : backlog_)
    kept[record.header.number] = {&record, record.ring.get()};
  for (auto record = history_.rbegin(); record != history_.rend() && kept.size() < room; ++record)
    kept[record->header.number] = {&*record, nullptr};
  for (const auto& [number, one] : kept) give(consumer, *one.record, one.ring);
  for (const MessageRecord& record : backlog_)
    if (has_slot(record)) slots_.remove(record.header.slot, kBacklogBit);
  backlog_.clear();
}

void ConsumerSet::left(unsigned id) {
  const auto found = std::find_if(consumers_.begin(), consumers_.end(),
                                  [id](const auto& consumer) { return consumer->id() == id; });
  if (found == consumers_.end()) return departed_.confirm(id);
  std::unique_ptr<ConsumerState> consumer = std::move(*found);
  consumers_.erase(found);
  slabs_.remove(consumer->index());
  find_only();
  const bool honest = consumer->refresh();
  reclaim(*consumer);
  note_missed(*consumer);
  if (count() == 0) {
    if (honest) keep_for_successor(*consumer);
    if (!lost_) lost_ = farewell_of(*consumer);
  }
  let_go_of_unread(*consumer);
  if (!consumer->resources().is_gone()) {
    depart(std::move(consumer), true);
    return GANTRY_CHECK_INVARIANTS(*this);
  }
  for_each_bit(consumer->holds(), [&](std::size_t slot) { slots_.remove(slot, consumer->bit()); });
  GANTRY_CHECK_INVARIANTS(*this);
}

// A consumer without descriptors or memory lives, and nobody who comes again gets on.
Error ConsumerSet::farewell_of(const ConsumerState& consumer) {
  if (!trouble_) trouble_ = told_why(consumer.resources().connection.receive_fd());
  const Error why = trouble_.value_or(Error{Code::peer_gone, "is gone", ""});
  return {why.code, fmt::format("{} {}", called(consumer), why.message), why.hint};
}

std::optional<Error> ConsumerSet::hear_trouble() {
  if (consumers_.size() == 1) static_cast<void>(farewell_of(*consumers_.front()));
  return trouble_;
}

// True if it still needs what was lent for that message. A consumer may release what it has not
// taken.
bool ConsumerSet::needs(const ConsumerState& consumer, const MessageHeader& header) const noexcept {
  return header.slot != kNoSlot && (consumer.holds() >> header.slot & 1) != 0 &&
         slots_[header.slot].number == header.number;
}

// A streamed message can be repeated only if its window holds all of it. Otherwise its sender,
// which waits for the window, is told when nobody else has it either.
void ConsumerSet::note_missed(const ConsumerState& consumer) {
  for (const MessageRecord& record : consumer.unread_records())
    if (outgrew_window(record) && needs(consumer, record.header))
      slots_[record.header.slot].was_missed = true;
}

void ConsumerSet::keep_for_successor(const ConsumerState& consumer) {
  for (const MessageRecord& record : consumer.unread_records()) {
    if (outgrew_window(record)) continue;
    // it gave the message back unseen
    if (has_slot(record) && !needs(consumer, record.header)) continue;
    backlog_.push_back({record, is_beside(record.header) ? consumer.memory() : nullptr});
    if (has_slot(record)) slots_.add(record.header.slot, kBacklogBit);
  }
}

// It says itself that it takes no more, so it knows nothing of what it had not taken.
void ConsumerSet::let_go_of_unread(ConsumerState& consumer) {
  for (const MessageRecord& record : consumer.unread_records())
    if (has_slot(record) && needs(consumer, record.header)) {
      slots_.remove(record.header.slot, consumer.bit());
      consumer.let_go(record.header.slot);
    }
}

// I3
void ConsumerSet::depart(std::unique_ptr<ConsumerState> consumer, bool confirmed) {
  const std::uint64_t held = consumer->holds();
  const std::uint64_t bit = consumer->bit();
  if (held != 0 || !confirmed) departed_.add(std::move(consumer), slots_, confirmed);
  for_each_bit(held, [&](std::size_t slot) { slots_.remove(slot, bit); });
  GANTRY_STEP(consumer_departed);
}

// After each round of looks at the consumers: retires those that were cut in it.
void ConsumerSet::retire_the_cut() {
  if (!std::exchange(any_cut_, false)) return;
  for (std::size_t i = consumers_.size(); i-- > 0;) {
    if (!consumers_[i]->is_cut) continue;
    std::unique_ptr<ConsumerState> consumer = std::move(consumers_[i]);
    consumers_.erase(consumers_.begin() + static_cast<std::ptrdiff_t>(i));
    slabs_.remove(consumer->index());
    note_missed(*consumer);
    depart(std::move(consumer), false);
  }
  find_only();
}

}  // namespace gantry
