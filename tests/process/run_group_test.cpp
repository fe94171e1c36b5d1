// `gantry run` and a stage whose replicas are the ranks of a group: they join without any option,
// all or none, and each element of what they do together is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "run_support.hpp"

namespace gantry::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string group_of(const std::string& ranks, const std::string& runs,
                     const std::string& salt = "1") {
  return "[stages.work]\ncommand = ['" RUN_RANK "', '" + runs + "', '" + salt +
         "']\nranks = " + ranks + "\n";
}

// Rank 2 never joins.
const std::string kTwoOfThreeJoin =
    "[stages.work]\nranks = 3\n"
    "shell = 'if [ $GANTRY_RANK = 2 ]; then exec {stage} hold; fi; exec " RUN_RANK " 1 1'\n";

class RunGroup : public testing::Test {
 protected:
  nlohmann::json ranks() const {
    Command command;
    command.argv = {GANTRY_CLI, "ranks", "--json", "--directory", scratch_.channels()};
    return nlohmann::json::parse(test::run(command).output)["ranks"];
  }
  RunScratch scratch_;
};

TEST_F(RunGroup, EachRankJoinsWithoutOptions) {
  const Ended run = scratch_.run(group_of("4", "5"), {"--json"});
  ASSERT_EQ(run.status, 0) << run.errors;
  for (const char* rank : {"0", "1", "2", "3"})
    EXPECT_THAT(run.errors,
                HasSubstr("[work." + std::string(rank) + "] rank " + rank + " of 4 in work\n"));
  const auto report = nlohmann::json::parse(run.output);
  EXPECT_EQ(report["stages"][0]["replicas"], 4);
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

// Of processes without an end of a channel: each step of each run once, on a track of its rank.
TEST_F(RunGroup, EachOperationIsInTheTrace) {
  constexpr int kRuns = 3;
  const ScratchDirectory results;
  const std::string file = results.file("run.json");
  const Ended run = scratch_.run(group_of("2", std::to_string(kRuns)), {"--trace", file});
  ASSERT_EQ(run.status, 0) << run.errors;
  std::ifstream written(file);
  const auto trace = nlohmann::json::parse(written, nullptr, false);
  ASSERT_FALSE(trace.is_discarded());
  std::map<std::pair<int, int>, int> times;  // of a process and a step
  std::set<std::string> tracks;
  std::set<int> processes;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"].get<std::string>());
    if (event["ph"] != "X" || !event["args"].contains("step")) continue;
    processes.insert(event["pid"].get<int>());
    ++times[{event["pid"].get<int>(), event["args"]["step"].get<int>()}];
    EXPECT_THAT(event["name"].get<std::string>(),
                ContainsRegex("^((put|get|copy|reduce|fill) [a-z]+|signal|barrier)"));
  }
  EXPECT_EQ(processes.size(), 2u);
  EXPECT_FALSE(times.empty());
  for (const auto& [step, count] : times) EXPECT_EQ(count, kRuns) << step.second;
  EXPECT_TRUE(tracks.contains("group work, rank 0") && tracks.contains("group work, rank 1"))
      << testing::PrintToString(tracks);
  EXPECT_THAT(tracks, testing::Contains(StartsWith("link to ")));
}

// {out} is the path of a file: not a number.
TEST_F(RunGroup, RanksThatAreNoNumberAreRefused) {
  const Ended run = scratch_.run(group_of("'{out}'", "1"));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(last_line(run.errors), HasSubstr(": stages.work.ranks: '" + scratch_.results() +
                                               "' is no number from 1 to 256"));
}

TEST_F(RunGroup, OneRankIsAGroup) {
  const Ended run = scratch_.run(group_of("1", "2"));
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(run.output, ContainsRegex("^pipeline [^\n]* CPU-s in all; what ranks exchange is "
                                        "not counted\n"));
  EXPECT_THAT(run.output, Not(AnyOf(HasSubstr("moved"), HasSubstr("every published byte"))));
  EXPECT_THAT(run.errors, HasSubstr("[work] rank 0 of 1 in work\n"));
}

TEST_F(RunGroup, TwoGroupsOfARunAreTwo) {
  std::string other = group_of("2", "40", "500");
  other.replace(other.find("work"), 4, "rest");
  const Ended run = scratch_.run(group_of("3", "40") + other);
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(run.errors, AllOf(HasSubstr("[work.2] rank 2 of 3 in work\n"),
                                HasSubstr("[rest.1] rank 1 of 2 in rest\n")));
}

TEST_F(RunGroup, TwoLaunchersAtOnceDoNotMeet) {
  // The same file, name and directory; other numbers, so that a stranger's would be a wrong sum.
  RunScratch other;
  Command second = other.command(group_of("3", "0", "500"));
  second.env = {{"GANTRY_DIR", scratch_.channels()}};
  Subprocess one(scratch_.command(group_of("3", "0", "1")));
  Subprocess two(second);
  for (Subprocess* run : {&one, &two})
    for (const char* rank : {"0", "1", "2"})
      ASSERT_TRUE(run->wait_errors("[work." + std::string(rank) + "] runs")) << rank;
  one.signal(SIGINT);
  const auto first = one.wait();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 130) << first->errors;
  EXPECT_EQ(scratch_.stages().size(), 3u);  // the other run goes on
  two.signal(SIGINT);
  const auto last = two.wait();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->status, 130) << last->errors;
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

class KilledRank : public testing::TestWithParam<const char*> {
 protected:
  void expect_named(Subprocess& run) {
    const int pid = scratch_.pid_of("work", GetParam());
    ASSERT_GT(pid, 0);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    const auto ended = run.wait();
    ASSERT_TRUE(ended) << "still running";
    EXPECT_EQ(ended->status, 1);
    EXPECT_THAT(last_line(ended->errors),
                StartsWith("gantry: stage work." + std::string(GetParam()) +
                           ": was killed by signal 9 (SIGKILL)"));
    EXPECT_THAT(scratch_.left_behind(), IsEmpty());
  }
  RunScratch scratch_;
};
INSTANTIATE_TEST_SUITE_P(Run, KilledRank, testing::Values("0", "1"));

TEST_P(KilledRank, WhileTheOthersJoinEndsTheRun) {
  Subprocess run(scratch_.command(kTwoOfThreeJoin));
  ASSERT_TRUE(run.wait_errors("[work.2] holding"));
  ASSERT_TRUE(run.wait_errors("[work." + std::string(GetParam()) + "] joining"));
  expect_named(run);
}

TEST_P(KilledRank, WhileTheyRunEndsTheRun) {
  Subprocess run(scratch_.command(group_of("3", "0")));
  ASSERT_TRUE(run.wait_errors("[work." + std::string(GetParam()) + "] runs"));
  expect_named(run);
}

TEST_F(RunGroup, ARankThatDoesNotJoinIsNamedInTime) {
  const Ended run = scratch_.run(kTwoOfThreeJoin, {"--connect-within", "300ms"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.errors, HasSubstr("group 'work', rank 0: rank 2 has not joined"));
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

TEST_F(RunGroup, RanksAreShownWhileTheyJoinAndNotWhenTheyAreKilled) {
  Subprocess run(scratch_.command(kTwoOfThreeJoin));
  nlohmann::json seen;
  const auto both_join = [&] {
    seen = ranks();
    return seen.size() == 2 && !seen[0]["operations"].empty();
  };
  ASSERT_TRUE(eventually(both_join)) << seen;
  EXPECT_EQ(seen[0]["group"], "work");
  EXPECT_EQ(seen[0]["ranks"], 3);
  EXPECT_EQ(seen[0]["state"], "joining");
  EXPECT_EQ(seen[0]["pid"], scratch_.pid_of("work", "0"));
  EXPECT_EQ(seen[1]["state"], "joining");
  EXPECT_EQ(seen[1]["pid"], scratch_.pid_of("work", "1"));
  EXPECT_TRUE(eventually([&] {
    for (const auto& one : ranks())
      if (one["rank"] == 0 && one["operations"].size() == 1)
        return one["operations"][0]["text"] == "waits for rank 2";
    return false;
  }));
  // The launcher does not run, so that it can neither end the others nor remove the pages.
  run.signal(SIGSTOP);
  ASSERT_EQ(::kill(scratch_.pid_of("work", "0"), SIGKILL), 0);
  EXPECT_TRUE(eventually([&] {
    for (const auto& one : ranks())
      if (one["rank"] == 0) return false;
    return true;
  }));
  run.signal(SIGCONT);
  ASSERT_TRUE(run.wait());
  EXPECT_EQ(ranks().size(), 0u);
}

TEST_F(RunGroup, RanksAreShownWhileTheyRun) {
  Subprocess run(scratch_.command(group_of("3", "0")));
  for (const char* rank : {"0", "1", "2"})
    ASSERT_TRUE(run.wait_errors("[work." + std::string(rank) + "] runs"));
  const auto seen = ranks();
  ASSERT_EQ(seen.size(), 3u);
  for (unsigned rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(seen[rank]["rank"], rank);
    EXPECT_EQ(seen[rank]["process"], "running");
    EXPECT_EQ(seen[rank]["epoch"], seen[0]["epoch"]);
    EXPECT_EQ(seen[rank]["plan_hash"], seen[0]["plan_hash"]);
    EXPECT_THAT(seen[rank]["plan"].get<std::string>(), HasSubstr("ranks 3"));
    EXPECT_GT(seen[rank]["runs"], 0);
    EXPECT_GT(seen[rank]["steps"], 0);
  }
  Command table;
  table.argv = {GANTRY_CLI, "ranks", "work", "--directory", scratch_.channels()};
  EXPECT_THAT(test::run(table).output, AllOf(HasSubstr("GROUP"), HasSubstr("2 of 3")));
  table.argv = {GANTRY_CLI, "top",         "--once",           "--interval",
                "0.01",     "--directory", scratch_.channels()};
  EXPECT_THAT(test::run(table).output, HasSubstr("2 of 3"));
  table.argv = {GANTRY_CLI, "ranks", "rest", "--directory", scratch_.channels()};
  EXPECT_THAT(test::run(table).errors, HasSubstr("no ranks of a group 'rest' in "));
}

TEST_F(RunGroup, AProgramThatIsNoRankGetsOneLine) {
  const std::string no_rank =
      "gantry: group of the launcher: `gantry run` did not start this program as a rank; ";
  std::string text = group_of("2", "1");
  text.replace(text.find("ranks"), 5, "replicas");
  EXPECT_THAT(scratch_.run(text).errors, HasSubstr("[work.0] " + no_rank));

  Command by_hand;
  by_hand.argv = {RUN_RANK, "1", "1"};
  const Ended alone = test::run(by_hand);
  EXPECT_EQ(alone.status, 1);
  EXPECT_EQ(alone.errors.find("joining\n" + no_rank), 0u) << alone.errors;
}

// Its replicas are no ranks of the group around them.
TEST_F(RunGroup, ARunWithinARankIsAnother) {
  const std::string inner = scratch_.command("").argv.at(2) + ".inner";
  const std::string text =
      "[stages.outer]\nranks = 1\nshell = '''printf '[stages.in]\\nshell = \"env\"\\n' >" + inner +
      " && gantry run " + inner + "'''\n";
  const Ended run = scratch_.run(text);
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("[in] GANTRY_STAGE=in\n"));
  for (const char* gone : {"GANTRY_GROUP=", "GANTRY_RANK=", "GANTRY_RANKS="})
    EXPECT_EQ(run.errors.find(gone), std::string::npos) << gone;
}

}  // namespace
}  // namespace gantry::test
