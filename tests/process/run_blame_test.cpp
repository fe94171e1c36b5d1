// `gantry run` names the stage that left first, and lets no broken stream pass for a whole one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_support.hpp"

namespace gantry::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Blame : public testing::TestWithParam<const char*> {
 protected:
  /// Runs what must fail; returns the last line of its standard error.
  std::string error_of(const std::string& text) {
    const Ended run = scratch_.run(text, {"--transport", GetParam()});
    EXPECT_EQ(run.status, 1) << run.errors;
    EXPECT_THAT(run.output, IsEmpty());
    EXPECT_THAT(scratch_.left_behind(), IsEmpty());
    errors_ = run.errors;
    return last_line(run.errors);
  }

  RunScratch scratch_;
  std::string errors_;
};
INSTANTIATE_TEST_SUITE_P(Run, Blame, testing::Values("gantry", "pipe"),
                         [](const auto& one) { return std::string(one.param); });

// What gunzip does not take, get cannot write; put then closes a stream that ends too early.
TEST_P(Blame, AProgramThatFailsBetweenGetAndPutIsNotTheNeighboursFault) {
  const std::string error = error_of(
      "[stages.source]\ncommand = ['{stage}', 'source', '0', '100000']\n"
      "[stages.unpack]\n"
      "command = ['sh', '-c', 'gantry get numbers | gzip -dc | gantry put plain']\n"
      "[stages.sink]\ncommand = ['sh', '-c', 'gantry get plain > {out}']\n"
      "[channels.numbers]\nfrom = 'source'\nto = 'unpack'\n"
      "[channels.plain]\nfrom = 'unpack'\nto = 'sink'\n");
  EXPECT_THAT(error, AllOf(StartsWith("gantry: stage unpack: left its input 'numbers' unread; "),
                           HasSubstr("its last words stand above"),
                           HasSubstr("; stage source exited with status 1, too")));
  EXPECT_THAT(errors_, HasSubstr("\n  gzip: stdin: not in gzip format\n"));
}

TEST_P(Blame, AStageThatForgetsToCloseIsNamedNotItsReader) {
  const std::string error = error_of(
      "[stages.source]\ncommand = ['{stage}', 'forget']\n"
      "[stages.sink]\ncommand = ['sh', '-c', 'gantry get numbers > {out}']\n"
      "[channels.numbers]\nfrom = 'source'\nto = 'sink'\n");
  EXPECT_THAT(error, AllOf(StartsWith("gantry: stage source: left its output 'numbers' without "
                                      "closing it; "),
                           HasSubstr("close()")));
}

// The answer goes up the pipeline: both before it fail, and it is still the last that left.
TEST_P(Blame, AChainOfAnswersIsFollowedToItsEnd) {
  EXPECT_THAT(
      error_of("[stages.source]\ncommand = ['{stage}', 'source', '0', '100000']\n"
               "[stages.relay]\ncommand = ['{stage}', 'relay']\n"
               "[stages.sink]\ncommand = ['sh', '-c', 'gantry get results | head -c 1000']\n"
               "[channels.numbers]\nfrom = 'source'\nto = 'relay'\n"
               "[channels.results]\nfrom = 'relay'\nto = 'sink'\n"),
      StartsWith("gantry: stage sink: left its input 'results' unread; "));
}

// Of several replicas the first to give an end up counts, not the first to end.
TEST_P(Blame, AReplicaThatLeftFirstIsNamedThoughItsVictimsEndedSooner) {
  std::string text = RunScratch::three_stages(RunScratch::kForEver, RunScratch::kBytes);
  const std::string relay = "'relay']";
  text.replace(text.find(relay), relay.size(), "'desert']");
  EXPECT_THAT(error_of(text), StartsWith("gantry: stage relay.1: left its output 'results' without "
                                         "closing it; "));
}

// The shell says 141, whoever of its pipe read no further.
TEST_P(Blame, AShellWhosePipeEndsEarlyIsNamedWithTheInputThatItLeft) {
  const std::string error = error_of(
      "[stages.source]\ncommand = ['{stage}', 'source', '0', '100000']\n"
      "[stages.sink]\nshell = 'gantry get numbers | head -c 1000 >{out}'\n"
      "[channels.numbers]\nfrom = 'source'\nto = 'sink'\n");
  EXPECT_THAT(error, AllOf(StartsWith("gantry: stage sink: left its input 'numbers' unread, and "
                                      "exited with status 141; "),
                           HasSubstr("wrote to one that had ended, as before head")));
}

// ---- shell -------------------------------------------------------------------------------------

class Shell : public testing::Test {
 protected:
  static std::string of_source(const std::string& line) {
    return "[stages.source]\n" + line +
           "[stages.sink]\ncommand = ['sh', '-c', 'gantry get bytes > {out}']\n"
           "[channels.bytes]\nfrom = 'source'\nto = 'sink'\n";
  }
  RunScratch scratch_;
};

TEST_F(Shell, AProgramThatFailsInTheMiddleOfAPipeFailsTheStage) {
  const Ended run = scratch_.run(
      of_source("shell = \"seq 1 100 | dd if=/nowhere/at/all | cat | gantry put bytes\"\n"));
  EXPECT_EQ(run.status, 1) << run.errors;
  EXPECT_THAT(last_line(run.errors), StartsWith("gantry: stage source: exited with status 1; "));
  EXPECT_THAT(run.errors, HasSubstr("/nowhere/at/all"));
}

TEST_F(Shell, ACommandThatWroteToOneThatHadEndedIsExplained) {
  const Ended run =
      scratch_.run(of_source("shell = \"seq 1 1000000 | head -n 1 | gantry put bytes\"\n"));
  EXPECT_EQ(run.status, 1) << run.errors;
  EXPECT_THAT(last_line(run.errors),
              AllOf(StartsWith("gantry: stage source: exited with status 141; a command of its "
                               "pipe wrote to one that had ended"),
                    HasSubstr("sed -n 1,10p in place of head")));
}

// The stage behind it fails, too, and at once; the one before it when its reader has left.
TEST_F(Shell, AStageThatLacksAProgramIsBlamedBeforeThoseThatFailForIt) {
  const std::string pipeline =
      "[stages.source]\nshell = 'seq 1 300000 | gantry put numbers'\n"
      "[stages.work]\nshell = 'gantry get numbers | nosuchprogram | gantry put plain'\n"
      "[stages.sink]\nshell = 'gantry get plain | grep -q 299999'\n"
      "[channels.numbers]\nfrom = 'source'\nto = 'work'\n"
      "[channels.plain]\nfrom = 'work'\nto = 'sink'\n";
  for (int i = 0; i < 6; ++i) {
    const Ended run = scratch_.run(pipeline);
    EXPECT_EQ(run.status, 1) << run.errors;
    EXPECT_THAT(last_line(run.errors),
                AllOf(StartsWith("gantry: stage work: exited with status 127; a program of its "
                                 "line was not found"),
                      HasSubstr("stage sink exited with status 1, too")));
  }
}

TEST_F(Shell, ANeighbourWhoseProgramIsMissingIsNamedWhileItGoesOn) {
  const Ended run = scratch_.run(
      "[stages.source]\nshell = 'sleep 60 | gantry put numbers'\n"
      "[stages.work]\nshell = 'gantry get numbers | nosuchprogram | gantry put plain'\n"
      "[stages.sink]\nshell = 'gantry get plain | grep -q 299999'\n"
      "[channels.numbers]\nfrom = 'source'\nto = 'work'\n"
      "[channels.plain]\nfrom = 'work'\nto = 'sink'\n");
  EXPECT_EQ(run.status, 1) << run.errors;
  EXPECT_THAT(last_line(run.errors),
              AllOf(StartsWith("gantry: stage sink: exited with status 1; "),
                    HasSubstr("; stage work had ended its stream while it had input")));
  EXPECT_THAT(run.errors, HasSubstr("nosuchprogram: command not found"));
}

TEST_F(Shell, PipesVariablesAndSettingsWork) {
  const Ended run = scratch_.run(
      of_source("shell = \"x=7; seq 1 ${{x}} | tail -n 2 > {out}.tmp && cat {out}.tmp | "
                "gantry put bytes\"\n"));
  EXPECT_EQ(run.status, 0) << run.errors;
  EXPECT_EQ(scratch_.read_results(), "6\n7\n");
}

}  // namespace
}  // namespace gantry::test
