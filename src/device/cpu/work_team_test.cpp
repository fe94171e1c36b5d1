#include "device/cpu/work_team.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace gantry {
namespace {

/// All of a team in parts that end when the work beside them has been done; true if one of the
/// team did it.
bool team_does_what_is_beside(WorkTeam& team, std::size_t parts) {
  std::atomic<std::size_t> begun{0};
  std::atomic<bool> is_done{false};
  std::thread job([&] {
    team.run(parts, [&](std::size_t) {
      ++begun;
      while (!is_done) std::this_thread::yield();
    });
  });
  while (begun < parts) std::this_thread::yield();
  std::thread::id by;
  team.run_beside([&] {
    by = std::this_thread::get_id();
    is_done = true;
  });
  EXPECT_TRUE(is_done);  // when run_beside() returns
  job.join();
  return by != std::this_thread::get_id();
}

/// The first jobs tell how long they take.
bool team_learns(WorkTeam& team) {
  for (int i = 0; i < 100; ++i)
    if (team_does_what_is_beside(team, 2)) return true;
  return false;
}

TEST(WorkTeam, HasAnIdleMemberDoWhatIsShortBesideALongJob) {
  const auto team = WorkTeam::make(3).value();
  EXPECT_TRUE(team_learns(*team));
}

TEST(WorkTeam, LeavesWorkToItsThreadWhenNothingElseRuns) {
  const auto team = WorkTeam::make(3).value();
  ASSERT_TRUE(team_learns(*team));
  std::thread::id by;
  team->run_beside([&] { by = std::this_thread::get_id(); });
  EXPECT_EQ(by, std::this_thread::get_id());
}

TEST(WorkTeam, DoesNotLeaveWorkBesidePartsThatNeverEnd) {
  const auto team = WorkTeam::make(3).value();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(team_does_what_is_beside(*team, 3));
}

TEST(WorkTeam, TakesPartsOfSeveralJobsAndWorkBesideThemOnceEach) {
  const auto team = WorkTeam::make(3).value();
  constexpr std::size_t kJobs = 3, kRuns = 500, kParts = 20;
  std::atomic<std::size_t> beside{0};
  std::vector<std::thread> threads;
  for (std::size_t job = 0; job < kJobs; ++job) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kRuns; ++i) {
        std::vector<int> times(kParts);  // no atomics: run() makes them its caller's again
        team->run(kParts, [&](std::size_t part) { ++times[part]; });
        EXPECT_EQ(times, std::vector<int>(kParts, 1));
      }
    });
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kRuns; ++i) team->run_beside([&] { ++beside; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(beside, kJobs * kRuns);
}

}  // namespace
}  // namespace gantry
