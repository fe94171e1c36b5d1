#include "core/channel/fan_out/kept_messages.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

bool has_slot(const MessageRecord& record) {
  return record.header.slot != kNoSlot;
}

// A payload beside its record stays in its place.
void give(ConsumerState& consumer, SlotTable& slots, const MessageRecord& record) {
  consumer.publish(record);
  if (!has_slot(record)) return;
  slots.add(record.header.slot, consumer.bit());
  consumer.hold(record.header.slot);
}

}  // namespace

bool outgrew_window(const MessageRecord& record) noexcept {
  if ((record.header.kind & kStreamed) == 0) return false;
  Place place;  // NOLINT: copied
  std::memcpy(&place, record.body.data(), sizeof place);
  return place.bytes > place.window_bytes;
}

void KeptMessages::keep(const RecordToSend& message) {
  message.write(backlog_.emplace_back());
  if (message.header.slot != kNoSlot) slots_.add(message.header.slot, kBacklogBit);
  GANTRY_STEP(kept_in_backlog);
  GANTRY_CHECK_INVARIANTS(*this);
}

void KeptMessages::keep_unread(const ConsumerState& consumer) {
  consumer.for_each_unread([&](const MessageRecord& record) {
    if (outgrew_window(record)) return;
    // it gave the message back unseen, or the sender gave the message up
    if (has_slot(record) &&
        (!needs(consumer, slots_, record.header) || slots_[record.header.slot].was_given_up))
      return;
    backlog_.push_back(record);
    if (has_slot(record)) slots_.add(record.header.slot, kBacklogBit);
  });
  GANTRY_CHECK_INVARIANTS(*this);
}

void KeptMessages::remember(const RecordToSend& message) {
  if (most_ == 0 || (message.header.kind & kStreamed) != 0) return;
  message.write(history_.emplace_back());
  if (message.header.slot != kNoSlot) slots_.add(message.header.slot, kHistoryBit);
  GANTRY_STEP(kept_in_history);
  if (history_.size() > most_) forget_oldest();
  GANTRY_CHECK_INVARIANTS(*this);
}

void KeptMessages::take_back(Slot& slot) noexcept {
  slot.was_given_up = true;
  const auto index = slots_.index_of(slot);
  const auto is_in_it = [index](const MessageRecord& one) { return one.header.slot == index; };
  if (std::erase_if(backlog_, is_in_it) != 0) slots_.remove(index, kBacklogBit);
  if (std::erase_if(history_, is_in_it) != 0) slots_.remove(index, kHistoryBit);
  GANTRY_CHECK_INVARIANTS(*this);
}

bool KeptMessages::forget_oldest() noexcept {
  if (history_.empty()) return false;
  if (has_slot(history_.front())) slots_.remove(history_.front().header.slot, kHistoryBit);
  history_.pop_front();
  GANTRY_CHECK_INVARIANTS(*this);
  return true;
}

std::vector<std::uint32_t> KeptMessages::slabs() const {
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

void KeptMessages::hand_over(ConsumerState& consumer, std::size_t room) {
  std::map<std::uint64_t, const MessageRecord*> kept;
  for (const MessageRecord& record : backlog_) kept[record.header.number] = &record;
  for (auto record = history_.rbegin(); record != history_.rend() && kept.size() < room; ++record)
    kept[record->header.number] = &*record;
  for (const auto& [number, record] : kept) give(consumer, slots_, *record);
  for (const MessageRecord& record : backlog_)
    if (has_slot(record)) slots_.remove(record.header.slot, kBacklogBit);
  backlog_.clear();
  GANTRY_CHECK_INVARIANTS(*this);
}

std::uint64_t KeptMessages::newest() const noexcept {
  return std::max(backlog_.empty() ? 0 : backlog_.back().header.number,
                  history_.empty() ? 0 : history_.back().header.number);
}

#ifndef NDEBUG
void KeptMessages::check_invariants() const noexcept {
  const auto check = [this](const auto& records, std::uint64_t bit) {
    std::uint64_t lie_in = 0;
    std::uint64_t last = 0;
    for (const MessageRecord& record : records) {
      const MessageHeader& header = record.header;
      GANTRY_ASSERT(header.number > last);  // K1
      last = header.number;
      if (header.slot == kNoSlot) continue;
      GANTRY_ASSERT(slots_[header.slot].number == header.number);  // K2
      lie_in |= std::uint64_t{1} << header.slot;
    }
    GANTRY_ASSERT(slots_.needed_by(bit) == lie_in);  // K2
  };
  check(backlog_, kBacklogBit);
  check(history_, kHistoryBit);
  GANTRY_ASSERT(history_.size() <= most_);  // K3
}
#endif

}  // namespace gantry
