#include "sync/doorbell.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/event.hpp"
#include "base/socket.hpp"

// Property: no wake-up is lost. Method: two threads hand a number back and forth and go to sleep at
// once each time, so that nearly every hand-over meets the window between "nothing there" and
// "asleep"; a lost wake-up leaves both asleep and the wait runs into its (generous) deadline.
// Seen to fail with [D1] and [D4] relaxed, and with I1's "once a sleep" replaced by "once".
namespace gantry {
namespace {

struct Side {
  std::atomic<std::uint64_t> word{0};  // what this side tells the other
  SleepIntent intent;
  Ringer ringer;  // for ringing the other
  Fd event = *make_event();
};

bool await(Side& self, const Side& other, std::uint64_t value) {
  while (other.word.load(std::memory_order_seq_cst) != value) {  // [D2]
    self.intent.announce();
    bool in_time = true;
    if (other.word.load(std::memory_order_seq_cst) != value) {
      in_time = *wait_readable(self.event.get(), Deadline::after(std::chrono::seconds(20)));
      drain(self.event.get());
    }
    self.intent.withdraw();
    if (!in_time) return false;
  }
  return true;
}

void tell(Side& self, const Side& other, std::uint64_t value) {
  self.word.store(value, std::memory_order_seq_cst);  // [D3]
  if (self.ringer.must_ring(other.intent)) ring(other.event.get());
}

TEST(Doorbell, LosesNoWakeUp) {
  constexpr std::uint64_t kTurns = 30'000;
  Side left;
  Side right;
  bool right_in_time = true;
  std::thread answering([&] {
    for (std::uint64_t i = 1; i <= kTurns && right_in_time; ++i) {
      right_in_time = await(right, left, i);
      tell(right, left, i);
    }
  });
  bool left_in_time = true;
  for (std::uint64_t i = 1; i <= kTurns && left_in_time; ++i) {
    tell(left, right, i);
    left_in_time = await(left, right, i);
  }
  answering.join();
  EXPECT_TRUE(left_in_time);
  EXPECT_TRUE(right_in_time);
}

TEST(Doorbell, RingsOnceForEachSleep) {
  SleepIntent sleeper;
  Ringer ringer;
  EXPECT_FALSE(ringer.must_ring(sleeper));
  sleeper.announce();
  EXPECT_TRUE(ringer.must_ring(sleeper));
  EXPECT_FALSE(ringer.must_ring(sleeper));
  sleeper.withdraw();
  EXPECT_FALSE(ringer.must_ring(sleeper));
  sleeper.announce();
  EXPECT_TRUE(ringer.must_ring(sleeper));
}

}  // namespace
}  // namespace gantry
