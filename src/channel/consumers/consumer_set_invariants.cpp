#include <array>

#include "channel/consumers/consumer_set.hpp"

// The invariants of a consumer set whenever its lock is free; debug builds check them.
#ifndef NDEBUG
namespace gantry {
namespace {

using WhoNeeds = std::array<std::uint64_t, kMaxSlots>;

// Checks the backlog, or the history.
template <class Record>
void check_kept(const std::deque<Record>& records, std::uint64_t published, const SlotTable& slots,
                std::uint64_t bit, WhoNeeds& who_needs) noexcept {
  std::uint64_t last = 0;
  for (const MessageRecord& record : records) {
    const MessageHeader& header = record.header;
    GANTRY_ASSERT(header.number > last && header.number <= published);  // I8
    last = header.number;
    if (header.slot == kNoSlot) continue;
    GANTRY_ASSERT(slots[header.slot].number == header.number);  // I8
    who_needs[header.slot] |= bit;
  }
}

}  // namespace

// I3, I4 and I5 are about sequences of steps, and I5 does not count what a newcomer gets of the
// history.
void ConsumerSet::check_invariants() const noexcept {
  WhoNeeds who_needs{};
  std::uint64_t places = 0;
  unsigned last_id = 0;
  bool any_cut = false;
  for (const auto& consumer : consumers_) {
    const std::uint64_t bit = consumer->bit();
    GANTRY_ASSERT(consumer->index() < kMaxConsumers && (places & bit) == 0);  // I6
    GANTRY_ASSERT(consumer->id() > last_id && consumer->id() <= last_id_);    // I6
    GANTRY_ASSERT(consumer->unread() <= cells_for(limits_.slots));            // I9
    places |= bit;
    last_id = consumer->id();
    any_cut |= consumer->is_cut;
    for_each_bit(consumer->holds(), [&](std::size_t slot) { who_needs[slot] |= bit; });
  }
  check_kept(backlog_, number_, slots_, kBacklogBit, who_needs);
  check_kept(history_, number_, slots_, kHistoryBit, who_needs);
  // Without heap, a consumer that is let go may keep its slots: docs/known-defects.md. The check
  // ends here.
  for (std::size_t slot = 0; slot < kMaxSlots; ++slot)
    GANTRY_ASSERT((slots_[slot].consumers & ~kSenderBit) == who_needs[slot]);  // I1
  GANTRY_ASSERT(backlog_.empty() || consumers_.empty());                       // I2
  GANTRY_ASSERT(any_cut_ == any_cut);                                          // I10
  const bool is_plain = !consumers_.empty() && !any_cut && all_block() && limits_.history == 0;
  GANTRY_ASSERT(is_plain_ == is_plain);  // I7
  GANTRY_ASSERT(only_ ==
                (is_plain && consumers_.size() == 1 ? consumers_.front().get() : nullptr));  // I7
  GANTRY_ASSERT(history_.size() <= limits_.history);                                         // I8
  GANTRY_ASSERT(!lost_ || count() == 0);                                                     // I10
}

}  // namespace gantry
#endif
