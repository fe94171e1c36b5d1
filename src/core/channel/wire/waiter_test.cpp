#include "core/channel/wire/waiter.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

using std::chrono::microseconds;

TEST(SpinTime, ShrinksWhilePollingIsInVain) {
  SpinTime spin(microseconds(64));
  EXPECT_EQ(spin.now(), microseconds(64));
  spin.took(microseconds(64));
  EXPECT_EQ(spin.now(), microseconds(32));
  for (int i = 0; i < 100; ++i) spin.took(microseconds(1000));
  EXPECT_EQ(spin.now(), microseconds(1)) << "so that fast news are found out again";
}

TEST(SpinTime, IsWholeAgainAfterOneShortWait) {
  SpinTime spin(microseconds(64));
  for (int i = 0; i < 100; ++i) spin.took(microseconds(1000));
  spin.took(microseconds(63));
  EXPECT_EQ(spin.now(), microseconds(64));
}

TEST(SpinTime, WhoWantsNoneGetsNone) {
  SpinTime spin{std::chrono::nanoseconds(0)};
  spin.took(microseconds(0));
  EXPECT_EQ(spin.now().count(), 0);
}

TEST(SpinTime, AWaitIsWhatItsBlockTakes) {
  SpinTime spin(std::chrono::nanoseconds(1));  // nothing is as short
  spin = microseconds(64);
  {
    const SpinTime::Wait wait(spin);
    const std::uint64_t began = monotonic_ns();
    while (monotonic_ns() - began < 64'000) continue;
  }
  EXPECT_EQ(spin.now(), microseconds(32));
}

}  // namespace
}  // namespace gantry
