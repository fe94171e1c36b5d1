// However `gantry run` ends, it leaves no process, no file and no descriptor.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "run_support.hpp"

namespace gantry::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kInterruptedStatus = 130;
constexpr int kPipeBytes = 65536;  // the kernel's default

// A stage that ends once there are results.
constexpr const char* kUntilResults =
    "[stages.waiting]\n"
    "command = ['sh', '-c', 'echo here; until [ -e {out} ]; do sleep 0.01; done']\n";

class RunCleanup : public testing::Test {
 protected:
  RunScratch scratch_;
};

class RunSignalled : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Run, RunSignalled, testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& one) { return std::string(::sigabbrev_np(one.param)); });

TEST_P(RunSignalled, StopsAllStagesAndLeavesNothing) {
  RunScratch scratch;
  Subprocess run(
      scratch.command(RunScratch::three_stages(RunScratch::kForEver, RunScratch::kBytes) +
                      "[stages.stubborn]\ncommand = ['{stage}', 'stubborn']\n"));
  ASSERT_TRUE(run.wait_errors("[sink] flowing"));
  ASSERT_TRUE(run.wait_errors("[stubborn] holding"));
  run.signal(GetParam());
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, kInterruptedStatus) << ended->errors;
  EXPECT_THAT(ended->errors, HasSubstr("\ngantry: run: interrupted\n"));
  EXPECT_THAT(ended->output, IsEmpty());
  EXPECT_THAT(scratch.left_behind(), IsEmpty());
}

// Started as nohup does, it outlives its terminal.
TEST_F(RunCleanup, AnIgnoredHangUpStaysIgnored) {
  Command command = scratch_.command(kUntilResults);
  command.argv.insert(command.argv.begin(), {"sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""});
  Subprocess run(command);
  ASSERT_TRUE(run.wait_errors("[waiting] here"));
  run.signal(SIGHUP);
  std::ofstream(scratch_.results()) << "go on";
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, 0) << ended->errors;
}

TEST_F(RunCleanup, AKilledGuardIsReportedOnceAndTheRunGoesOn) {
  Subprocess run(scratch_.command(kUntilResults));
  ASSERT_TRUE(run.wait_errors("[waiting] here"));
  const int guard = scratch_.guard_pid();
  ASSERT_GT(guard, 0);
  ASSERT_EQ(::kill(guard, SIGKILL), 0);
  const std::string warning = "gantry: run: its guard (process " + std::to_string(guard) + ") ";
  ASSERT_TRUE(run.wait_errors(warning));
  std::ofstream(scratch_.results()) << "go on";
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, 0) << ended->errors;
  EXPECT_EQ(ended->errors.find(warning), ended->errors.rfind(warning)) << ended->errors;
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

TEST_F(RunCleanup, AStoppedGuardHoldsNothingUp) {
  Subprocess run(scratch_.command(kUntilResults));
  ASSERT_TRUE(run.wait_errors("[waiting] here"));
  const int guard = scratch_.guard_pid();
  ASSERT_GT(guard, 0);
  ASSERT_EQ(::kill(guard, SIGSTOP), 0);
  std::ofstream(scratch_.results()) << "go on";
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, 0) << ended->errors;
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

TEST_F(RunCleanup, EndsWhatStagesLeaveRunning) {
  const Ended run = scratch_.run("[stages.family]\ncommand = ['{stage}', 'family']\n");
  EXPECT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("gantry: stage family: left 1 of its processes running"));
  EXPECT_THAT(run.errors, HasSubstr("gantry: run: 1 processes had left their stage's group"));
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

TEST_F(RunCleanup, WhoCannotBeKilledIsNamedAndNotWaitedFor) {
  Command command = scratch_.command("[stages.family]\ncommand = ['{stage}', 'family']\n");
  command.argv.insert(command.argv.begin(), {RUN_STAGE, "unkilling"});
  const Ended run = test::run(command);
  const auto left = scratch_.stages();
  for (const StagePid& one : left) EXPECT_EQ(::kill(one.pid, SIGKILL), 0);
  constexpr int kNoFilters = 77;
  if (run.status == kNoFilters) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_EQ(run.status, 0) << run.signal << run.errors;
  EXPECT_EQ(left.size(), 2u);
  EXPECT_THAT(run.errors, HasSubstr("gantry: run: 2 processes cannot be killed"));
  for (const StagePid& one : left) EXPECT_THAT(run.errors, HasSubstr(std::to_string(one.pid)));
}

TEST_F(RunCleanup, AKilledRunnerTakesItsStagesAlong) {
  const std::string text = RunScratch::three_stages(RunScratch::kForEver, RunScratch::kBytes) +
                           "[stages.stubborn]\ncommand = ['{stage}', 'stubborn']\n"
                           // A shell that does not hand its place over: its child has no link to
                           // the runner but the process group.
                           "[stages.shell]\ncommand = ['sh', '-c', '{stage} stubborn; true']\n";
  Subprocess run(scratch_.command(text));
  ASSERT_TRUE(run.wait_errors("[sink] flowing"));
  ASSERT_TRUE(run.wait_errors("[stubborn] holding"));
  ASSERT_TRUE(run.wait_errors("[shell] holding"));
  run.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return scratch_.left_behind().empty(); }))
      << testing::PrintToString(scratch_.left_behind());
}

TEST_F(RunCleanup, TheNextRunSweepsWhatDeadOnesLeft) {
  const Command command = scratch_.command("stages.a.command = ['true']\n");
  const std::string dead = scratch_.channels() + "/run-1-dead00";
  const std::string alive = scratch_.channels() + "/run-2-alive0";
  std::filesystem::create_directories(dead);
  std::filesystem::create_directories(alive);
  ASSERT_EQ(::chmod(scratch_.channels().c_str(), 0700), 0);
  std::ofstream(dead + "/frames.0.0") << "left";
  const int lock = ::open((alive + "/.runner").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  const Ended run = test::run(command);
  EXPECT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(scratch_.left_behind(), ElementsAre(alive));
  ::close(lock);
}

TEST_F(RunCleanup, ADirectoryThatStaysLockedIsNotWaitedForForEver) {
  const Command command = scratch_.command("stages.a.command = ['true']\n");
  std::filesystem::create_directories(scratch_.channels());
  ASSERT_EQ(::chmod(scratch_.channels().c_str(), 0700), 0);
  const int held = ::open(scratch_.channels().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  const Ended run = test::run(command);
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.errors, HasSubstr(scratch_.channels() + ": another process keeps it locked"));
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
  ::close(held);
}

TEST_F(RunCleanup, AReaderWhoDoesNotReadHoldsNothingUp) {
  // Far more lines than the pipe behind our standard error takes, which nobody empties.
  Command command = scratch_.command(
      "[stages.loud]\ncommand = ['sh', '-c', 'yes | head -c 4000000; echo done > {out}']\n");
  command.argv = {"sh",
                  "-c",
                  "exec \"$0\" \"$@\" 2> " + scratch_.channels() + ".fifo",
                  command.argv[0],
                  command.argv[1],
                  command.argv[2]};
  const std::string fifo = scratch_.channels() + ".fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  Subprocess run(command);
  ASSERT_TRUE(eventually([&] {
    int queued = 0;  // a pipe that takes no more whole pages is full
    return ::ioctl(reader, FIONREAD, &queued) == 0 && queued > kPipeBytes - 4096;
  }));
  EXPECT_EQ(scratch_.read_results(), "");  // the stage waits, as it would for the reader itself
  run.signal(SIGTERM);
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, kInterruptedStatus);
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
  ::close(reader);
}

}  // namespace
}  // namespace gantry::test
