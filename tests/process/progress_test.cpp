// Long commands on a terminal and in a pipe: what they show meanwhile, and what is left of it.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class LongCommands : public OnATerminal {
 protected:
  [[nodiscard]] Command calibrate(const std::vector<std::string>& more) const {
    Command command = gantry({"calibrate"});
    command.argv.insert(command.argv.end(), more.begin(), more.end());
    command.env.emplace_back("XDG_CACHE_HOME", cache_.path());
    return command;
  }
  [[nodiscard]] Command oracle(const std::vector<std::string>& words) const {
    Command command;
    command.env = {{"TMPDIR", cache_.path()}};  // others look for what is left in /dev/shm
    command.argv = {CHANNEL_ORACLE};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    return command;
  }
  /// As Ctrl-C does it: what the terminal echoes, and a signal.
  void interrupt(Subprocess& command) {
    ASSERT_EQ(::write(terminal_.stream(), "^C", 2), 2);
    command.signal(SIGINT);
  }

  ScratchDirectory cache_;
};

TEST_F(LongCommands, CalibrateDrawsABarAndTakesItBack) {
  const Ended ended = run(with("2>", calibrate({"--quick", "--json"})));
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(nlohmann::json::parse(ended.output)["source"], "quick");
  EXPECT_THAT(terminal_.read_all(), HasSubstr("calibrating ["));
  EXPECT_THAT(terminal_.rows(), IsEmpty());
}

TEST_F(LongCommands, CalibrateInterruptedLeavesNothing) {
  Subprocess calibrating(with("2>", calibrate({})));
  EXPECT_THAT(read_until("calibrating ["), HasSubstr("calibrating ["));
  interrupt(calibrating);
  const auto ended = calibrating.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_THAT(terminal_.rows(), IsEmpty());
}

TEST_F(LongCommands, TraceSaysHowLongItStillRecords) {
  const std::string file = cache_.file("trace.json");
  Subprocess tracing(with("2>", gantry({"trace", "--seconds", "1h", "-o", file})));
  EXPECT_THAT(read_until("Ctrl-C"), HasSubstr("gantry trace ["));
  interrupt(tracing);
  const auto ended = tracing.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 0);
  for (const std::string& row : terminal_.rows()) EXPECT_THAT(row, Not(HasSubstr("[")));
}

TEST_F(LongCommands, TheOracleDrawsABarAndTakesItBack) {
  const Ended ended = run(with("2>", oracle({"--seeds", "1-2", "--jobs", "1"})));
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, StartsWith("2 scenarios from seed 1 on, 0 failed"));
  EXPECT_THAT(terminal_.read_all(), HasSubstr("channel_oracle ["));
  EXPECT_THAT(terminal_.rows(), IsEmpty());
}

TEST_F(LongCommands, TheOracleInterruptedSaysHowFarItCame) {
  Subprocess soaking(with("2>", oracle({"--seconds", "3600", "--jobs", "1"})));
  EXPECT_THAT(read_until("0 failed"), HasSubstr("channel_oracle ["));
  ASSERT_TRUE(eventually([&] { return !cache_.entries().empty(); }));  // it plays
  interrupt(soaking);
  const auto ended = soaking.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_THAT(ended->output, HasSubstr("scenarios from seed 1 on, 0 failed"));
  EXPECT_THAT(cache_.entries(), IsEmpty());
  EXPECT_THAT(terminal_.rows(), IsEmpty());
}

}  // namespace
}  // namespace gantry::test
