#include "core/engine/thread/scheduler.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/engine/thread/core.hpp"

namespace gantry {

#ifndef NDEBUG
template <>
struct InvariantBreaker<Scheduler> {
  static void cut_tail(Scheduler& scheduler) { scheduler.lists_[0].last = nullptr; }
  static void miscount(Scheduler& scheduler) { ++scheduler.listed_; }
};
#endif

namespace {

struct TestLane {
  LaneProgress progress;
  LaneEntry entry{8, progress};

  void submit(Bytes units, unsigned node = 0) {
    entry.moves.stage(0, Move::fill(ByteSpan(memory()).first(units), std::byte{}),
                      CacheUse::reader_soon, node);
    entry.moves.publish(1);
  }
  static std::vector<std::byte>& memory() {
    static std::vector<std::byte> bytes(64);
    return bytes;
  }
};

TEST(Scheduler, LanesTakeTurnsWhateverTheSizeOfTheirMoves) {
  Scheduler scheduler(1);
  TestLane large, small, third;
  large.submit(20);
  small.submit(1);
  third.submit(2);
  for (TestLane* lane : {&large, &small, &third}) scheduler.update(lane->entry);
  std::vector<LaneEntry*> turns;
  while (LaneEntry* lane = scheduler.take_turn(0)) {
    turns.push_back(lane);
    static_cast<void>(lane->moves.take(1));
    scheduler.update(*lane);
  }
  ASSERT_EQ(turns.size(), 23u);
  const std::vector<LaneEntry*> first(turns.begin(), turns.begin() + 6);
  EXPECT_EQ(first, (std::vector{&large.entry, &small.entry, &third.entry, &large.entry,
                                &third.entry, &large.entry}));
}

TEST(Scheduler, AWorkerPrefersItsOwnNodeAndTakesFromOthersOtherwise) {
  Scheduler scheduler(2);
  TestLane near, far;
  far.submit(1, 1);
  near.submit(1, 0);
  scheduler.update(far.entry);
  scheduler.update(near.entry);
  EXPECT_EQ(scheduler.take_turn(0), &near.entry);
  EXPECT_EQ(scheduler.take_turn(0), &far.entry);
  EXPECT_EQ(scheduler.take_turn(0), nullptr);
}

TEST(Scheduler, WakesOneAtATimeNearestFirst) {
  Scheduler scheduler(2);
  Worker here(0), there(1);
  scheduler.become_idle(here);
  scheduler.become_idle(there);
  EXPECT_EQ(scheduler.pick_wake(), nullptr);
  TestLane lane;
  lane.submit(10, 1);
  scheduler.update(lane.entry);
  EXPECT_EQ(scheduler.pick_wake(), &there);
  EXPECT_EQ(scheduler.pick_wake(), nullptr);  // it is on its way
  scheduler.end_looking();
  EXPECT_EQ(scheduler.take_turn(1), &lane.entry);
  static_cast<void>(lane.entry.moves.take(1));
  scheduler.update(lane.entry);
  EXPECT_EQ(scheduler.pick_wake(), &here);  // there is more
}

#ifndef NDEBUG
class SchedulerDeathTest : public testing::Test {
 protected:
  using Breaker = InvariantBreaker<Scheduler>;
  SchedulerDeathTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (TestLane* lane : {&one_, &two_}) {
      lane->submit(2);
      scheduler_.update(lane->entry);
    }
  }
  TestLane one_, two_;
  Worker worker_{0};
  Scheduler scheduler_{2};
};

TEST_F(SchedulerDeathTest, ALaneInAListHasSomethingToHandOut) {
  static_cast<void>(one_.entry.moves.take(2));
  EXPECT_DEATH(scheduler_.update(two_.entry), "broken contract.*head");  // I1
}

TEST_F(SchedulerDeathTest, ALaneInAListIsNotAlone) {
  one_.entry.is_alone = true;
  EXPECT_DEATH(scheduler_.update(two_.entry), "broken contract.*is_alone");  // I1
}

TEST_F(SchedulerDeathTest, ALaneStandsInTheListOfItsHeadsGroup) {
  static_cast<void>(one_.entry.moves.take(2));
  one_.submit(1, 1);
  EXPECT_DEATH(scheduler_.update(two_.entry), "broken contract.*node");  // I1
}

TEST_F(SchedulerDeathTest, AListIsWhole) {
  Breaker::cut_tail(scheduler_);
  EXPECT_DEATH(scheduler_.begin_looking(), "broken contract.*last");  // I3
}

TEST_F(SchedulerDeathTest, LanesInListsAreCounted) {
  Breaker::miscount(scheduler_);
  EXPECT_DEATH(scheduler_.begin_looking(), "broken contract.*listed");  // I4
}

TEST_F(SchedulerDeathTest, AWorkerIsIdleOnceAndInTheListOfItsGroup) {
  Worker elsewhere(1);
  scheduler_.become_idle(elsewhere);
  scheduler_.become_idle(worker_);
  EXPECT_DEATH(scheduler_.become_idle(worker_), "broken contract.*idle");  // I5
  worker_.next_idle = &elsewhere;
  EXPECT_DEATH(scheduler_.begin_looking(), "broken contract.*group");  // I5
}

TEST_F(SchedulerDeathTest, WhoStopsLookingHadBegunTo) {
  EXPECT_DEATH(scheduler_.end_looking(), "broken contract.*looking_");  // I6
}
#endif

TEST(NodeGroups, AskForLargeMovesOnlyAndFallBackToTheFirst) {
  const std::vector<WorkerPlace> places{{4, {}}, {9, {}}, {4, {}}};
  const NodeGroups groups(places, [](const void* at) noexcept { return at == nullptr ? 77 : 9; });
  EXPECT_EQ(groups.count(), 2u);
  EXPECT_EQ(groups.of_node(4), 0u);
  EXPECT_EQ(groups.of_node(9), 1u);
  Move move = Move::fill(TestLane::memory(), std::byte{});
  move.bytes = NodeGroups::kAskedFrom;
  EXPECT_EQ(groups.near(move), 1u);
  move.destination = nullptr;
  EXPECT_EQ(groups.near(move), 0u);
}

TEST(NodeGroups, TheKernelKnowsTheNodeOfAPage) {
  TestLane::memory()[0] = std::byte{1};
  int status = -1;
  void* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(TestLane::memory().data()) &
                                       ~std::uintptr_t{4095});  // move_pages() looks up any page
  if (::syscall(SYS_move_pages, 0, 1, &page, nullptr, &status, 0) != 0)
    GTEST_SKIP() << "this kernel tells no page's node: " << std::strerror(errno);
  EXPECT_GE(status, 0);
  EXPECT_EQ(NodeGroups::node_of_page(TestLane::memory().data()), status);
  EXPECT_EQ(NodeGroups::node_of_page(nullptr), -1);
}

}  // namespace
}  // namespace gantry
