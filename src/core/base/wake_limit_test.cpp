#include "core/base/wake_limit.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

constexpr std::uint64_t kStart = 1'000'000'000;

/// Rings so often; each ring comes when the mute that the one before began is over. The last's
/// mute.
std::uint64_t ring_for_nothing(WakeLimit& limit, unsigned count, std::uint64_t& now_ns) {
  std::uint64_t mute = 0;
  for (unsigned i = 0; i < count; ++i) {
    now_ns = std::max(now_ns + 1, limit.over_ns());
    limit.note(false, now_ns);
    mute = limit.is_muted(now_ns) ? limit.over_ns() - now_ns : 0;
  }
  return mute;
}

TEST(WakeLimit, ListensToWhoeverRingsForSomethingAsOften) {
  WakeLimit limit;
  for (std::uint64_t now = kStart; now < kStart + 100'000; ++now) {
    limit.note(now % 2 == 0, now);
    ASSERT_FALSE(limit.is_muted(now));  // I1
  }
}

TEST(WakeLimit, MutesWhoeverRingsForNothingAgainAndAgain) {
  WakeLimit limit;
  std::uint64_t now = kStart;
  EXPECT_EQ(ring_for_nothing(limit, WakeLimit::kMostIdle - 1, now), 0u);  // I1
  EXPECT_EQ(ring_for_nothing(limit, 1, now), WakeLimit::kShortestNs);
}

// One ring in three for something is too few.
TEST(WakeLimit, ALittleWorkBuysNoFlood) {
  WakeLimit limit;
  bool muted = false;
  for (std::uint64_t now = kStart; now < kStart + 3 * WakeLimit::kMostIdle + 3; ++now) {
    limit.note(now % 3 == 0, now);
    muted = muted || limit.is_muted(now);
  }
  EXPECT_TRUE(muted);
}

TEST(WakeLimit, AMuteEndsByItself) {
  WakeLimit limit;
  std::uint64_t now = kStart;
  ring_for_nothing(limit, WakeLimit::kMostIdle + 100, now);
  ASSERT_TRUE(limit.is_muted(now));
  EXPECT_EQ(limit.over_ns() - now, WakeLimit::kLongestNs);  // I2, I3
  EXPECT_TRUE(limit.is_muted(limit.over_ns() - 1));
  EXPECT_FALSE(limit.is_muted(limit.over_ns()));
}

TEST(WakeLimit, EachMuteIsTwiceAsLong) {
  WakeLimit limit;
  std::uint64_t now = kStart;
  std::uint64_t mute = ring_for_nothing(limit, WakeLimit::kMostIdle, now);
  while (mute < WakeLimit::kLongestNs) {
    const std::uint64_t next = ring_for_nothing(limit, 1, now);
    ASSERT_EQ(next, 2 * mute);  // I3
    mute = next;
  }
}

TEST(WakeLimit, WhoMakesUpForItIsAsNew) {
  WakeLimit limit;
  std::uint64_t now = kStart;
  ring_for_nothing(limit, WakeLimit::kMostIdle + 2, now);
  for (unsigned i = 0; i < WakeLimit::kMostIdle; ++i) limit.note(true, ++now);
  EXPECT_EQ(ring_for_nothing(limit, WakeLimit::kMostIdle - 1, now), 0u);  // I4
  EXPECT_EQ(ring_for_nothing(limit, 1, now), WakeLimit::kShortestNs);
}

TEST(WakeLimit, WhoWasSilentLongEnoughIsAsNew) {
  WakeLimit limit;
  std::uint64_t now = kStart;
  ring_for_nothing(limit, WakeLimit::kMostIdle + 2, now);
  now += WakeLimit::kForgetsNs;
  EXPECT_EQ(ring_for_nothing(limit, WakeLimit::kMostIdle - 1, now), 0u);  // I4
  EXPECT_EQ(ring_for_nothing(limit, 1, now), WakeLimit::kShortestNs);
}

}  // namespace
}  // namespace gantry
