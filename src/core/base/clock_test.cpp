#include "core/base/clock.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

TEST(Clock, TicksRunAtTheRateOfTheMonotonicClock) {
  const ClockPair start = ClockPair::now();
  const double scale = ns_per_tick(start);
  const ClockPair from = ClockPair::now();
  ClockPair to = ClockPair::now();
  while (to.ns - from.ns < 5'000'000) to = ClockPair::now();
  const double by_ticks = static_cast<double>(to.ticks - from.ticks) * scale;
  const double by_clock = static_cast<double>(to.ns - from.ns);
  // Each pair is of one moment, whenever this machine stopped us: the same within a fifth.
  EXPECT_NEAR(by_ticks / by_clock, 1.0, 0.2);
}

TEST(Clock, TicksDoNotGoBack) {
  std::uint64_t last = read_ticks();
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t now = read_ticks();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, ThreadTimeCountsWork) {
  const std::uint64_t before = thread_cpu_ns();
  volatile unsigned sink = 0;
  while (thread_cpu_ns() - before < 1'000'000) sink = sink + 1;
  EXPECT_GT(sink, 0u);
}

}  // namespace
}  // namespace gantry
