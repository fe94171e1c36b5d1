#include "core/sync/wait_ticks.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

TEST(WaitTicks, AWaitCountsFromItsBeginningOnAndOnce) {
  WaitTicks waits;
  waits.add(5);
  EXPECT_EQ(waits.total(1000), 5u);
  waits.begin(1000);
  waits.begin(1200);  // it has begun already
  EXPECT_EQ(waits.total(1000), 5u);
  EXPECT_EQ(waits.total(1007), 12u);
  waits.add(3);
  EXPECT_EQ(waits.total(1007), 15u);
  waits.end(1010);
  waits.end(2000);  // it is over already
  EXPECT_EQ(waits.total(5000), 18u);
}

// The beginning may be read before a clock that is some ticks behind.
TEST(WaitTicks, AClockBehindTheBeginningMakesNoAges) {
  WaitTicks waits;
  waits.begin(1000);
  EXPECT_EQ(waits.total(990), 0u);
}

TEST(WaitTicks, AScopeThatDidNotSleepCountsNothing) {
  WaitTicks waits;
  {
    const CountedWait never(waits);
  }
  EXPECT_EQ(waits.total(read_ticks()), 0u);
  {
    CountedWait counted(waits);
    EXPECT_FALSE(counted.has_begun());
    counted.begin(read_ticks());
    EXPECT_TRUE(counted.has_begun());
    while (waits.total(read_ticks()) == 0) continue;
  }
  const std::uint64_t total = waits.total(read_ticks());
  EXPECT_GT(total, 0u);
  EXPECT_EQ(waits.total(read_ticks()), total) << "it is over";
}

}  // namespace
}  // namespace gantry
