#include "channel/slot_table.hpp"

namespace gantry {

void Slot::drop_memory() noexcept {
  block = Block();
  table = Block();
  moved.clear();
  forwarded.clear();
  bytes = 0;
}

Slot Slot::share() const {
  Slot other;
  other.number = number;
  other.ticks = ticks;
  other.bytes = bytes;
  if (block) other.block = block.share();
  if (table) other.table = table.share();
  for (const Block& one : moved) other.moved.push_back(one.share());
  other.forwarded = forwarded;
  return other;
}

void Slot::abandon() noexcept {
  if (block) block.abandon();
  if (table) table.abandon();
  for (Block& one : moved) one.abandon();
  drop_memory();
}

Slot* SlotTable::take() noexcept {
  if (used_ == ~std::uint64_t{0}) return nullptr;
  const auto index = static_cast<std::size_t>(std::countr_one(used_));
  add(index, kSenderBit);
  return &slots_[index];
}

void SlotTable::add(std::size_t index, std::uint64_t readers) noexcept {
  slots_[index].readers |= readers;
  used_ |= std::uint64_t{1} << index;
}

bool SlotTable::remove(std::size_t index, std::uint64_t readers) noexcept {
  Slot& slot = slots_[index];
  slot.readers &= ~readers;
  if (slot.readers != 0) return false;
  slot.drop_memory();
  ++freed_;
  used_ &= ~(std::uint64_t{1} << index);
  return true;
}

std::uint64_t SlotTable::needed_by(std::uint64_t readers) const noexcept {
  std::uint64_t found = 0;
  for_each_bit(used_, [&](std::size_t index) {
    if ((slots_[index].readers & readers) != 0) found |= std::uint64_t{1} << index;
  });
  return found;
}

Bytes SlotTable::bytes_of(std::uint64_t slots) const noexcept {
  Bytes sum = 0;
  for_each_bit(slots, [&](std::size_t index) { sum += slots_[index].bytes; });
  return sum;
}

}  // namespace gantry
