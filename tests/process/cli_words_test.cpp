// What the program `gantry` says to a person: hints that can be followed, tables that fit.
#include <filesystem>
#include <sstream>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Cli, AnOptionThatIsNearlyOneIsSuggested) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"put", "c", "--mesage-size", "4K"},
       "--mesage-size: there is no such option; did you mean "
       "'--message-size'?"},
      {{"get", "c", "--timeuot=3"},
       "--timeuot: there is no such option; did you mean '--timeout'?"},
      {{"ls", "--jsno"}, "--jsno: there is no such option; did you mean '--json'?"},
      {{"run", "x", "--wibble"}, "--wibble: there is no such option; see gantry run --help"}};
  for (const auto& [arguments, line] : wrong) {
    const auto ended = run(gantry(arguments));
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.errors, "gantry: " + std::string(line) + "\n");
  }
}

TEST_F(Cli, HintsNameOptionsNotFieldsOfClasses) {
  Command command = put({"c", "--lines"}, "x\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess first(gantry({"get", "c"}));
  ASSERT_TRUE(first.wait_output("x\n"));
  EXPECT_THAT(run(gantry({"get", "c", "--timeout", "10"})).errors,
              AllOf(IsOneLine(), HasSubstr("gantry put --consumers"), Not(HasSubstr("::"))));
  EXPECT_THAT(run(put({"d", "--message-size", "1T"}, "x")).errors,
              AllOf(IsOneLine(), HasSubstr("lower --message-size"), Not(HasSubstr("::"))));
}

TEST_F(Cli, AFullChannelsHintHasTheNumberThatItNeeds) {
  Command command = put({"c", "--lines", "--consumers", "2", "--wait-consumer"}, "x\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess first(gantry({"get", "c"}));
  Subprocess second(gantry({"get", "c"}));
  ASSERT_TRUE(first.wait_output("x\n"));
  ASSERT_TRUE(second.wait_output("x\n"));
  const auto third = run(gantry({"get", "c", "--timeout", "10"}));
  EXPECT_EQ(third.status, 1);
  EXPECT_THAT(third.errors, AllOf(IsOneLine(), HasSubstr("gantry put --consumers 3")));
}

TEST_F(Cli, AUnitThatThereIsNotIsToldWithThoseThatThereAre) {
  EXPECT_EQ(run(gantry({"trace", "--seconds", "5m"})).errors,
            "gantry: --seconds: '5m': there is no unit 'm'; units: ns, us, ms, s, min, h; "
            "see gantry trace --help\n");
  EXPECT_THAT(run(gantry({"put", "c", "--message-size", "5Q"})).errors,
              HasSubstr("there is no unit 'Q'; units: B, K, KB, KiB, M, "));
}

TEST_F(Cli, ATraceOfNoTimeIsRefused) {
  for (const char* time : {"0", "0ms"}) {
    const auto traced =
        run(gantry({"trace", "--seconds", time, "-o", scratch_.file("trace.json")}));
    EXPECT_EQ(traced.status, 2);
    EXPECT_THAT(traced.errors, AllOf(IsOneLine(), HasSubstr("a trace takes longer than 0 s")));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("trace.json")));
}

TEST_F(Cli, AHostWithoutItsSignIsToldWithIt) {
  EXPECT_THAT(run(gantry({"ls", "10.77.0.2"})).errors,
              AllOf(IsOneLine(), HasSubstr("no channel '10.77.0.2'"), HasSubstr("@10.77.0.2")));
  EXPECT_THAT(run(gantry({"ls", "frames"})).errors, HasSubstr("gantry ls lists all"));
}

TEST_F(Cli, RanksSayWhereTheyWereLookedForAndWhatIsWrongThere) {
  const auto ranks = [&](const std::string& directory) {
    return run(gantry({"ranks", "--directory", directory}));
  };
  EXPECT_EQ(ranks(scratch_.path()).errors, "gantry: no ranks of groups in " + scratch_.path() +
                                               ", in its groups/ or those of its run-*/\n");
  const std::string missing = scratch_.file("missing");
  EXPECT_EQ(ranks(missing).errors,
            "gantry: no ranks of groups in " + missing + ", which is not there yet\n");
  const auto unfit = ranks("/");
  EXPECT_EQ(unfit.status, 1);
  EXPECT_THAT(unfit.errors, AllOf(IsOneLine(), HasSubstr("/: others can use it (mode ")));
  EXPECT_EQ(unfit.errors, run(gantry({"ls", "--directory", "/"})).errors);
}

TEST_F(Cli, HelpIsNoWiderThanAScreen) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"run", "--help"},
                                                    {"put", "--help"},
                                                    {"get", "--help"},
                                                    {"ls", "--help"},
                                                    {"top", "--help"},
                                                    {"doctor", "--help"}}) {
    std::istringstream lines(run(gantry(arguments)).output);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(run(gantry({"put", "--help"})).output,
              HasSubstr("\n  --mode MODE                 automatic, whole, pipelined, streamed or\n"
                        "                              immutable: when readers see a message\n"));
}

TEST_F(Cli, HelpOfBenchHasExamplesOfBenchAlone) {
  const std::string help = run(gantry({"bench", "--help"})).output;
  EXPECT_THAT(help, HasSubstr("Example: gantry bench "));
  EXPECT_THAT(help, Not(HasSubstr("gantry put")));
}

TEST_F(OnATerminal, TablesAreNoWiderThanTheScreen) {
  Command command = put({"a-channel-with-a-name", "--lines"}, "x\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess getting(gantry({"get", "a-channel-with-a-name"}));
  ASSERT_TRUE(getting.wait_output("x\n"));
  EXPECT_EQ(run(with(">", gantry({"ls", "--long"}))).status, 0);
  std::string shown = read_until("engine; copies");
  for (const char* title : {"CHANNEL", "CREDITS", "NEWEST COPY", "MEMORY", "OLDEST"})
    EXPECT_THAT(shown, HasSubstr(title));
  shown.resize(shown.find("engine; copies"));  // sentences are not tables
  shown.resize(shown.rfind('\n') + 1);
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 81u) << line;  // with the carriage return
}

}  // namespace
}  // namespace gantry::test
