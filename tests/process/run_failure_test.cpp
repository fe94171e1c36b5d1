// `gantry run` when a stage fails: the run ends, names the stage that failed first, and leaves
// nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <tuple>

#include "run_support.hpp"

namespace gantry::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Combine;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::Values;

struct Victim {
  const char* stage;
  const char* replica;
  const char* label;
};

class KilledStage : public testing::TestWithParam<std::tuple<const char*, Victim>> {};
INSTANTIATE_TEST_SUITE_P(Run, KilledStage,
                         Combine(Values("gantry", "pipe"), Values(Victim{"source", "0", "source"},
                                                                  Victim{"relay", "0", "relay.0"},
                                                                  Victim{"relay", "1", "relay.1"},
                                                                  Victim{"sink", "0", "sink"})),
                         [](const auto& one) {
                           const Victim& victim = std::get<1>(one.param);
                           return std::string(std::get<0>(one.param)) + "_" + victim.stage +
                                  victim.replica;
                         });

TEST_P(KilledStage, EndsTheRunAndIsNamed) {
  const auto& [transport, victim] = GetParam();
  RunScratch scratch;
  Subprocess run(scratch.command(RunScratch::three_stages(RunScratch::kForEver, RunScratch::kBytes),
                                 {"--transport", transport}));
  ASSERT_TRUE(run.wait_errors("[sink] flowing"));
  const int pid = scratch.pid_of(victim.stage, victim.replica);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, 1);
  EXPECT_THAT(last_line(ended->errors), StartsWith(std::string("gantry: stage ") + victim.label +
                                                   ": was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(ended->output, IsEmpty());
  EXPECT_THAT(scratch.left_behind(), IsEmpty());
}

class FailingRun : public testing::Test {
 protected:
  /// Runs what must fail; returns the last line of its standard error.
  std::string error_of(const std::string& text, std::vector<std::string> arguments = {}) {
    const Ended run = scratch_.run(text, std::move(arguments));
    EXPECT_EQ(run.status, 1) << run.errors;
    EXPECT_THAT(run.output, IsEmpty());
    EXPECT_THAT(scratch_.left_behind(), IsEmpty());
    errors_ = run.errors;
    return last_line(run.errors);
  }

  /// A source that never ends, and `command` as the stage that receives from it.
  static std::string with_sink(const std::string& command) {
    return "[stages.source]\ncommand = ['{stage}', 'source', '0', '1000']\n"
           "[stages.sink]\ncommand = [" +
           command + "]\n[channels.numbers]\nfrom = 'source'\nto = 'sink'\n";
  }

  RunScratch scratch_;
  std::string errors_;
};

TEST_F(FailingRun, TellsTheExitStatusAndTheLastWords) {
  const std::string error =
      error_of(with_sink("'sh', '-c', 'for i in $(seq 1 30); do echo line $i >&2; done; exit 3'"));
  EXPECT_EQ(error, "gantry: stage sink: exited with status 3; its last words stand above");
  const std::size_t words = errors_.find("last lines of standard error of stage sink:\n");
  ASSERT_NE(words, std::string::npos);
  const std::string last_words = errors_.substr(words);
  EXPECT_THAT(last_words, HasSubstr("\n  line 30\n"));
  EXPECT_THAT(last_words, HasSubstr("\n  line 11\n"));
  EXPECT_THAT(last_words, Not(HasSubstr("\n  line 10\n")));  // the last 20
}

TEST_F(FailingRun, SaysWhenAStageHadNoLastWords) {
  EXPECT_EQ(error_of("stages.a.command = ['false']\n"),
            "gantry: stage a: exited with status 1; it wrote nothing to standard error");
}

TEST_F(FailingRun, NamesAStageThatDoesNotConnectInTime) {
  const std::string error = error_of(with_sink("'{stage}', 'hold'"), {"--connect-within", "300ms"});
  // On a slow machine the source may not be in time either; then both stand in the line.
  const auto begins = [](const std::string& words) {
    return StartsWith("gantry: stage " + words + " 'numbers' within 300 ms; ");
  };
  EXPECT_THAT(error, AnyOf(begins("sink: has not opened its input"),
                           AllOf(begins("source: has not opened its output"),
                                 HasSubstr("; stage sink has not opened its input 'numbers' "
                                           "within 300 ms, too"))));
  EXPECT_THAT(error, HasSubstr("--connect-within allows more time"));
}

TEST_F(FailingRun, NamesAStageThatEndsWithoutConnecting) {
  EXPECT_THAT(error_of(with_sink("'true'")),
              StartsWith("gantry: stage sink: ended without opening its input 'numbers'; "));
}

TEST_F(FailingRun, AStageThatIgnoresTheOrderToStopIsKilled) {
  EXPECT_THAT(error_of("[stages.stubborn]\ncommand = ['{stage}', 'stubborn']\n"
                       "[stages.failing]\ncommand = ['sh', '-c', 'exit 4']\n"),
              StartsWith("gantry: stage failing: exited with status 4"));
}

TEST_F(FailingRun, AMessageLargerThanMemoryIsOneClearLine) {
  const std::string text =
      "[stages.source]\ncommand = ['{stage}', 'huge']\n"
      "[stages.sink]\ncommand = ['{stage}', 'hold', 'numbers']\n"
      "[channels.numbers]\nfrom = 'source'\nto = 'sink'\n";
  EXPECT_THAT(error_of(text), StartsWith("gantry: stage source: exited with status 1; "));
  const std::size_t line = errors_.find("[source] gantry: ");
  ASSERT_NE(line, std::string::npos) << errors_;
  EXPECT_EQ(errors_.find("[source] ", line + 1), std::string::npos) << errors_;
}

TEST_F(FailingRun, AStageThatFailsBehindAShellIsNamedToo) {
  // Its channel is closed long before the shell exits, so the source may fail first.
  const std::string error =
      error_of(with_sink("'sh', '-c', 'gantry get numbers | head -c 5000 > /dev/null; exit 3'"));
  EXPECT_THAT(error, HasSubstr("stage sink"));
  EXPECT_THAT(error, HasSubstr("exited with status 3"));
}

TEST_F(FailingRun, AFullDiskIsReportedByTheStageThatMetIt) {
  EXPECT_THAT(error_of(with_sink("'sh', '-c', 'exec gantry get numbers > /dev/full'")),
              HasSubstr("stage sink"));
  EXPECT_THAT(errors_, HasSubstr("[sink] gantry: "));
  EXPECT_THAT(errors_, HasSubstr("No space left on device"));
}

TEST_F(FailingRun, AConsumerThatStopsEarlyDoesNotPassAsAccounted) {
  // One message is received, many are published: whoever is blamed, it is no success.
  const Ended run = scratch_.run(with_sink("'sh', '-c', 'gantry get numbers | head -c 1'"));
  EXPECT_EQ(run.status, 1) << run.errors;
  EXPECT_THAT(last_line(run.errors), StartsWith("gantry: "));
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

// ---- what is refused before anything starts ----------------------------------------------------

TEST_F(FailingRun, RefusesACommandThatDoesNotExist) {
  const std::string error = error_of("[stages.a]\ncommand = ['no-such-program-anywhere']\n");
  EXPECT_THAT(error, HasSubstr("pipeline.toml:2:12: stages.a.command: there is no program "
                               "'no-such-program-anywhere' in PATH; install it"));
  EXPECT_EQ(errors_, error + "\n");
}

TEST_F(FailingRun, TellsEachMistakeOfAFileInALineOfItsOwn) {
  error_of(
      "[stages.a]\ncommand = 'x'\n[stages.b]\nreplicas = 0\nshell = 'x'\n[channels.c]\n"
      "from = 'a'\nto = 'bb'\n");
  EXPECT_THAT(errors_, testing::MatchesRegex("gantry: [^\n]*stages.a.command: is a string[^\n]*\n"
                                             "gantry: [^\n]*stages.b.replicas: 0 is[^\n]*\n"
                                             "gantry: [^\n]*channels.c.to: there is[^\n]*\n"));
  error_of(
      "[hosts.h]\naddress = '10.0.0.2'\nlaunch = ['no-such-ssh']\n"
      "[stages.a]\ncommand = ['no-such-a']\n[stages.b]\ncommand = ['no-such-b']\n"
      "[stages.c]\ncommand = ['no-such-c']\nhost = 'h'\n[stages.d]\ncommand = ['']\n"
      "[stages.e]\ncommand = ['no-such-e']\nhost = 'nowhere'\n");
  EXPECT_THAT(errors_, testing::MatchesRegex("gantry: [^\n]*d.command: the program is empty\n"
                                             "gantry: [^\n]*there is no host 'nowhere'[^\n]*\n"
                                             "gantry: [^\n]*'no-such-a' in PATH[^\n]*\n"
                                             "gantry: [^\n]*'no-such-b' in PATH[^\n]*\n"
                                             "gantry: [^\n]*'no-such-ssh' in PATH[^\n]*\n"));
}

TEST_F(FailingRun, ReportsWhatTheKernelWillNotExecute) {
  const std::string script = scratch_.results();  // any file of ours
  std::ofstream(script) << "no magic\n";
  ASSERT_EQ(::chmod(script.c_str(), 0700), 0);
  const std::string error = error_of(
      "[stages.a]\ncommand = ['{stage}', 'hold']\n"
      "[stages.b]\ncommand = ['{out}']\n");
  EXPECT_THAT(error, StartsWith("gantry: stage b: cannot start " + script + ": Exec format error"));
}

TEST_F(FailingRun, RefusesAFileThatIsNotThereOrNotToml) {
  EXPECT_THAT(error_of("name = \n"), HasSubstr("pipeline.toml:1:8: not a pipeline file: "));
  Command command = scratch_.command("");
  command.argv[2] = "/nowhere/pipeline.toml";
  const Ended run = test::run(command);
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.errors,
              StartsWith("gantry: /nowhere/pipeline.toml: No such file or directory; "));
}

TEST_F(FailingRun, RefusesWhatIsNoPipelineFile) {
  for (const char* file : {"", "/", "/dev/zero"}) {
    Command command = scratch_.command("");
    command.argv[2] = file;
    const Ended run = test::run(command);
    EXPECT_EQ(run.status, 1) << file;
    EXPECT_THAT(run.errors,
                StartsWith("gantry: " + std::string(*file == 0 ? "FILE" : file) + ": "));
    EXPECT_EQ(run.errors, last_line(run.errors) + "\n");
  }
}

TEST_F(FailingRun, RefusesADirectoryThatOthersCanWrite) {
  const Command command = scratch_.command("stages.a.command = ['true']\n");
  ASSERT_EQ(::mkdir(scratch_.channels().c_str(), 0700), 0);
  ASSERT_EQ(::chmod(scratch_.channels().c_str(), 0777), 0);
  const Ended run = test::run(command);
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.errors, HasSubstr("others can use it"));
  EXPECT_EQ(run.errors, last_line(run.errors) + "\n");
}

TEST_F(FailingRun, RefusesWrongUsage) {
  const std::string text = "stages.a.command = ['true']\n";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--transport", "pigeon"},
        {"--compare", "pigeon"},
        {"--set", "no-equals"},
        {"--connect-within", "soon"},
        {"--wibble"}}) {
    const Ended run = scratch_.run(text, arguments);
    EXPECT_EQ(run.status, 2) << arguments[0];
    EXPECT_EQ(run.errors, last_line(run.errors) + "\n");
  }
}

}  // namespace
}  // namespace gantry::test
