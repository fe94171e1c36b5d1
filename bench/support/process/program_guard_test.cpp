// A helper program and what it leaves, when the benchmark lets go of it and when that is killed.

#include "program_guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

namespace gantry::bench {
namespace {

class ProgramGuardTest : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream(leftover_) << "left"; }

  Kept kept(std::vector<std::string> words) const {
    return {.words = std::move(words), .log = scratch_.path() + "/log", .leftovers = {leftover_}};
  }

  ScratchDirectory scratch_ = ScratchDirectory::create().value();
  std::string leftover_ = scratch_.path() + "/leftover";
};

TEST_F(ProgramGuardTest, LettingGoEndsTheProgramAndRemovesWhatItLeaves) {
  pid_t program = -1;
  {
    const auto guard = ProgramGuard::start(kept({"sleep", "1000"}));
    ASSERT_TRUE(guard.has_value()) << to_string(guard.error());
    program = guard->program();
    EXPECT_EQ(::kill(program, 0), 0);
    EXPECT_TRUE(std::filesystem::exists(leftover_));
  }
  EXPECT_EQ(::kill(program, 0), -1);
  EXPECT_FALSE(std::filesystem::exists(leftover_));
}

TEST_F(ProgramGuardTest, KilledOutrightItsParentTakesTheProgramWithIt) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // the guard comes to us
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto guard = ProgramGuard::start(kept({"sleep", "1000"}));
    const pid_t program = guard ? guard->program() : -1;
    static_cast<void>(!::write(ends[1], &program, sizeof program));
    while (true) ::pause();
  }
  pid_t program = -1;
  ASSERT_EQ(::read(ends[0], &program, sizeof program), static_cast<ssize_t>(sizeof program));
  ::kill(parent, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {  // the parent, then the guard
  }
  EXPECT_EQ(::kill(program, 0), -1);
  EXPECT_FALSE(std::filesystem::exists(leftover_));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(ProgramGuardTest, AProgramThatCannotBeStartedSaysWhy) {
  const auto guard = ProgramGuard::start(kept({"/no/such/program"}));
  ASSERT_TRUE(guard.has_value()) << to_string(guard.error());
  pollfd ended{guard->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, -1), 1);
  EXPECT_TRUE(guard->has_ended());
  EXPECT_THAT(last_words(scratch_.path() + "/log"), ::testing::HasSubstr("No such file"));
}

}  // namespace
}  // namespace gantry::bench
