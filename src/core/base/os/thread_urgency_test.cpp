#include "core/base/os/thread_urgency.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace gantry {
namespace {

ThreadSchedule of_a_new_thread() {
  ThreadSchedule schedule;
  std::thread([&] { schedule = ThreadSchedule::now(); }).join();
  return schedule;
}

TEST(ThreadUrgency, GivingWayIsForTheCallingThreadAlone) {
  const ThreadSchedule before = ThreadSchedule::now();
  if (!before.is_usual()) GTEST_SKIP() << "the tests have another policy";
  ThreadSchedule after;
  std::thread([&] {
    give_way();
    after = ThreadSchedule::now();
  }).join();
  EXPECT_EQ(after.nice, std::min(before.nice + 10, 19));
  EXPECT_EQ(after.policy, before.policy);
  EXPECT_EQ(ThreadSchedule::now().nice, before.nice);
}

TEST(ThreadUrgency, UrgentAreThreadsThatAreStartedMeanwhileWhereTheProcessMay) {
  const ThreadSchedule before = ThreadSchedule::now();
  if (!before.is_usual()) GTEST_SKIP() << "the tests have another policy";
  ThreadSchedule started;
  {
    const StartsUrgent urgent;
    started = of_a_new_thread();
    EXPECT_EQ(ThreadSchedule::now().policy, started.policy);  // either, by its rights
  }
  EXPECT_EQ(ThreadSchedule::now().policy, before.policy);
  EXPECT_EQ(ThreadSchedule::now().nice, before.nice);
  EXPECT_EQ(of_a_new_thread().policy, before.policy);
  if (started.policy == before.policy) GTEST_SKIP() << "this process may not";
  EXPECT_EQ(started.policy, static_cast<std::uint32_t>(SCHED_RR));
  EXPECT_EQ(started.priority, 1u);
}

}  // namespace
}  // namespace gantry
