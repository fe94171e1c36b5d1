#include "core/channel/fan_out/slot_table.hpp"

namespace gantry {

void Slot::drop_memory(bool keeps) noexcept {
  if (keeps && block && block.bytes().size() <= SlotTable::kLargestSpare && !block.is_shared())
    spare = std::move(block);
  block = Block();
  table = Block();
  sealed.reset();
  moved.clear();
  forwarded.clear();
  slabs.clear();
  bytes = 0;
  was_missed = false;
  is_lent = false;
  was_given_up = false;
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
  other.sealed = sealed;
  return other;
}

void Slot::abandon() noexcept {
  if (block) block.abandon();
  if (table) table.abandon();
  for (Block& one : moved) one.abandon();
  // Other holders still read and forward it; its sender waits until the last wake-up sender closes.
  for (const auto& one : forwarded) one->abandon();
  drop_memory();
}

Slot* SlotTable::take(unsigned turns) noexcept {
  GANTRY_DEBUG_ASSERT(turns > 0 && turns <= kMaxSlots);
  if (used_ == ~std::uint64_t{0}) return nullptr;
  const auto lowest_from = [this](unsigned first) {
    return static_cast<unsigned>(std::countr_one(used_ | ((std::uint64_t{1} << first) - 1)));
  };
  unsigned index = lowest_from(next_);
  if (index >= turns) index = lowest_from(0);
  next_ = (index + 1) % turns;
  add(index, kSenderBit);
  return &slots_[index];
}

void SlotTable::add(std::size_t index, std::uint64_t consumers) noexcept {
  slots_[index].consumers |= consumers;
  used_ |= std::uint64_t{1} << index;
  GANTRY_CHECK_INVARIANTS(*this);
}

bool SlotTable::remove(std::size_t index, std::uint64_t consumers) noexcept {
  Slot& slot = slots_[index];
  GANTRY_DEBUG_ASSERT((slot.consumers & consumers) == consumers);  // I6
  slot.consumers &= ~consumers;
  if (slot.consumers != 0) return false;
  slot.drop_memory(keeps_);
  ++freed_;
  used_ &= ~(std::uint64_t{1} << index);
  GANTRY_CHECK_INVARIANTS(*this);
  return true;
}

template <class Holds>
std::uint64_t SlotTable::which(Holds holds) const noexcept {
  std::uint64_t found = 0;
  for_each_bit(used_, [&](std::size_t index) {
    if (holds(slots_[index])) found |= std::uint64_t{1} << index;
  });
  return found;
}

std::uint64_t SlotTable::needed_by(std::uint64_t consumers) const noexcept {
  return which([consumers](const Slot& slot) { return (slot.consumers & consumers) != 0; });
}

std::uint64_t SlotTable::lent() const noexcept {
  return which([](const Slot& slot) { return slot.is_lent; });
}

void SlotTable::refresh_lends() noexcept {
  lends_ = lends_ && which([](const Slot& slot) { return slot.lends(); }) != 0;
}

bool SlotTable::holds_forwards() const noexcept {
  return which([](const Slot& slot) { return !slot.forwarded.empty(); }) != 0;
}

bool SlotTable::drop_spares(std::size_t first) noexcept {
  bool any = false;
  for (std::size_t index = first; index < slots_.size(); ++index) {
    // Another thread may use a slot that is being filled.
    if ((slots_[index].consumers & kSenderBit) != 0 || !slots_[index].spare) continue;
    slots_[index].spare = Block();
    any = true;
  }
  GANTRY_CHECK_INVARIANTS(*this);
  return any;
}

// As drop_spares().
Bytes SlotTable::spare_bytes() const noexcept {
  Bytes sum = 0;
  for (const Slot& slot : slots_)
    if ((slot.consumers & kSenderBit) == 0 && slot.spare) sum += slot.spare.bytes().size();
  return sum;
}

Bytes SlotTable::bytes_of(std::uint64_t slots) const noexcept {
  Bytes sum = 0;
  for_each_bit(slots, [&](std::size_t index) { sum += slots_[index].bytes; });
  return sum;
}

#ifndef NDEBUG
void SlotTable::check_invariants() const noexcept {
  constexpr std::uint64_t kNobody =
      ~((std::uint64_t{1} << kMaxConsumers) - 1) & ~(kSenderBit | kBacklogBit | kHistoryBit);
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    const bool is_free = slot.consumers == 0;
    GANTRY_ASSERT((used_ >> index & 1) != (is_free ? 1 : 0));                                // I1
    GANTRY_ASSERT((slot.consumers & kNobody) == 0);                                          // I2
    GANTRY_ASSERT(!is_free || slot.is_empty());                                              // I3
    GANTRY_ASSERT(!is_free || (slot.bytes == 0 && !slot.was_missed && !slot.was_given_up));  // I3
    GANTRY_ASSERT(!is_free || !slot.is_lent);                                                // I3
    const bool is_filled = (slot.consumers & kSenderBit) != 0;  // another thread may use it
    GANTRY_ASSERT(is_filled || !slot.spare || slot.spare.bytes().size() <= kLargestSpare);  // I4
  }
  GANTRY_ASSERT(next_ < kMaxSlots);  // I5
}
#endif

}  // namespace gantry
