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

// Several threads share a CPU: a whole time of polling keeps the one from running that is waited
// for, and a wait without it is short.
TEST(SpinTime, IsTriedEverLessOftenWhilePollingHoldsUpWhatItWaitsFor) {
  constexpr int kWaits = 10'000;
  const auto whole_times = [](SpinTime& spin) {
    int whole = 0;
    for (int i = 0; i < kWaits; ++i) {
      whole += spin.now() == microseconds(64);
      spin.took(spin.now() + microseconds(20));
    }
    return whole;
  };
  SpinTime spin(microseconds(64));
  const int whole = whole_times(spin);
  EXPECT_GT(whole, kWaits / 100) << "it is still tried";
  EXPECT_LT(whole, kWaits / 50);
  while (spin.now() < microseconds(64)) spin.took(microseconds(20));
  spin.took(microseconds(20));  // within it
  for (int i = 0; i < 100; ++i) spin.took(microseconds(1000));
  spin.took(microseconds(63));
  EXPECT_EQ(spin.now(), microseconds(64)) << "it has paid";
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
