#include "core/engine/thread/lane_queue.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gantry {
namespace {

constexpr Bytes kUnit = 4096;

class LaneQueueTest : public testing::Test {
 protected:
  void submit(const std::vector<Move>& batch) {
    for (std::size_t i = 0; i < batch.size(); ++i)
      queue_.stage(i, batch[i], CacheUse::reader_soon, 0);
    queue_.publish(batch.size());
    settle();
  }
  std::size_t settle() {
    return queue_.settle([this](const Completion& ended) { ended_.push_back(ended); });
  }
  Unit take(std::uint64_t last = ~0ull) { return queue_.take(kUnit, last); }
  void finish(const Unit& unit) {
    queue_.finish(unit, execute_unit(unit), 1);
    settle();
  }
  Move fill(Bytes units) { return Move::fill(ByteSpan(bytes_).first(units * kUnit), std::byte{1}); }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(8 * kUnit);
  LaneProgress progress_;
  LaneQueue queue_{4, progress_};
  std::vector<Completion> ended_;
};

TEST_F(LaneQueueTest, TicketsEndInOrderThoughUnitsDoNot) {
  submit({fill(2), fill(1)});
  const Unit a = take(), b = take(), c = take();
  EXPECT_EQ(take().slot, nullptr);
  finish(c);
  finish(b);
  EXPECT_EQ(progress_.ended(), 0u);
  finish(a);
  EXPECT_EQ(progress_.ended(), 2u);
  EXPECT_EQ(ended_[0].helper_cpu_ns, 2u);
}

TEST_F(LaneQueueTest, UnitsBeyondATicketAreNotTaken) {
  submit({fill(1), fill(1)});
  finish(take(1));
  EXPECT_EQ(take(1).slot, nullptr);
  EXPECT_NE(take(2).slot, nullptr);
}

TEST_F(LaneQueueTest, TheFailureNearestTheFrontCounts) {
  const Executed near{.bytes_done = 5, .cause = Cause::unreadable, .fault_address = 20};
  const Executed far{.bytes_done = 0, .cause = Cause::unwritable, .fault_address = 30};
  for (const bool near_first : {false, true}) {
    ended_.clear();
    submit({fill(4)});
    const Unit a = take(), b = take(), c = take();
    near_first ? queue_.finish(b, near, 0) : queue_.finish(c, far, 0);
    EXPECT_EQ(take().slot, nullptr);  // what has not begun does not begin
    near_first ? queue_.finish(c, far, 0) : queue_.finish(b, near, 0);
    finish(a);
    ASSERT_EQ(ended_.size(), 1u);
    EXPECT_EQ(ended_[0].cause, Cause::unreadable);
    EXPECT_EQ(ended_[0].bytes_done, kUnit + 5);
    EXPECT_EQ(ended_[0].fault_address, 20u);
    EXPECT_EQ(queue_.undone(), 0u);
  }
}

TEST_F(LaneQueueTest, CancelKeepsWhatIsInSomebodysHands) {
  submit({fill(3), fill(3), fill(1)});
  finish(take());
  const Unit in_hand = take();
  EXPECT_EQ(in_hand.slot->ticket, 1u);
  queue_.cancel();
  EXPECT_EQ(settle(), 0u);
  EXPECT_EQ(queue_.head(), nullptr);
  finish(in_hand);
  ASSERT_EQ(ended_.size(), 3u);
  EXPECT_EQ(ended_[0].bytes_done, 2 * kUnit);
  EXPECT_EQ(ended_[1].bytes_done, 0u);
  EXPECT_EQ(ended_[2].bytes_done, 0u);
  for (const Completion& ended : ended_) EXPECT_EQ(ended.cause, Cause::cancelled);
  EXPECT_EQ(queue_.undone(), 0u);
}

TEST_F(LaneQueueTest, SlotsAreUsedAgain) {
  for (int round = 0; round < 10; ++round) {
    submit({fill(1), Move{}, fill(2)});
    for (Unit unit = take(); unit.slot != nullptr; unit = take()) finish(unit);
    EXPECT_EQ(queue_.unended(), 0u);
  }
  EXPECT_EQ(progress_.ended(), 30u);
}

TEST_F(LaneQueueTest, LeftCountsWhatIsAheadOfATicket) {
  submit({fill(2), fill(3)});
  EXPECT_EQ(queue_.left_until(1), 2 * kUnit);
  EXPECT_EQ(queue_.left_until(2), 5 * kUnit);
  finish(take());
  EXPECT_EQ(queue_.left_until(2), 4 * kUnit);
  EXPECT_EQ(queue_.left_until(9), 0u);
}

}  // namespace
}  // namespace gantry
