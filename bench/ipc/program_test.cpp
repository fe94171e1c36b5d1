// The program as `gantry bench ipc` starts it: its document, its complaints, and what stays behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

/// The program's temporary files go where only this test looks.
class BenchIpc : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(temporary_); }
  void TearDown() override { EXPECT_TRUE(std::filesystem::is_empty(temporary_)); }

  Ended run(std::vector<std::string> arguments) {
    return Program(GANTRY_BENCH_IPC, scratch_.path(), std::move(arguments)).wait();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create().value();
  std::string temporary_ = scratch_.path() + "/" + Program::kTemporary;
};

TEST_F(BenchIpc, JsonIsOneDocumentOfTheContract) {
  const Ended ended = run({"--sizes", "64", "--rounds", "1", "--json"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const json document = json::parse(ended.output);  // throws at anything before or after it
  EXPECT_EQ(document.at("bench"), "ipc");
  EXPECT_THAT(document.at("skipped"), IsEmpty());
  for (const char* fact : {"cpu_model", "cpus", "memory_bytes", "caches", "kernel"}) {
    EXPECT_TRUE(document.at("machine").contains(fact)) << fact;
  }
  ASSERT_FALSE(document.at("results").empty());
  for (const json& result : document.at("results")) {
    EXPECT_EQ(result.at("case"), "64 B");
    EXPECT_EQ(result.at("bytes"), 64);
    EXPECT_EQ(result.at("rounds"), 1);
    EXPECT_GE(result.at("value").get<double>(), result.at("min").get<double>());
    EXPECT_LE(result.at("value").get<double>(), result.at("max").get<double>());
  }
}

TEST_F(BenchIpc, EverySubjectHasEveryMetricInItsUnit) {
  const Ended ended = run({"--sizes", "4K", "--rounds", "1", "--json"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const json document = json::parse(ended.output);
  std::map<std::string, std::set<std::string>> metrics;
  for (const json& result : document.at("results")) {
    metrics[result.at("subject")].insert(result.at("metric").get<std::string>() + " " +
                                         result.at("unit").get<std::string>());
  }
  const auto full = UnorderedElementsAre("latency_p50 ns", "latency_p99 ns", "latency_p999 ns",
                                         "one_way_p50 ns", "throughput GB/s", "cpu_per_gb s/GB");
  for (const char* subject :
       {"gantry/sync", "gantry/loan", "cpu-sync", "cpu-sync-fresh", "pipe", "unix-socket"}) {
    EXPECT_THAT(metrics[subject], full) << subject;
  }
  EXPECT_THAT(metrics["limit/single-copy"],
              UnorderedElementsAre("latency_p50 ns", "latency_p99 ns", "latency_p999 ns",
                                   "throughput GB/s", "cpu_per_gb s/GB"));
  EXPECT_THAT(metrics["limit/cache-line-ping-pong"],
              UnorderedElementsAre("latency_p50 ns", "latency_p99 ns", "latency_p999 ns",
                                   "one_way_p50 ns"));
}

TEST_F(BenchIpc, TableEndsWithTheRatios) {
  const Ended ended = run({"--sizes", "64", "--rounds", "1"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("cpu-sync"));
  EXPECT_THAT(ended.output, HasSubstr("time of gantry/sync / limit/cache-line-ping-pong"));
}

TEST_F(BenchIpc, OnlySubjectsThatAreNamedTakePart) {
  const Ended ended =
      run({"--sizes", "64", "--rounds", "1", "--json", "--subjects", "pipe,gantry/loan"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  std::set<std::string> subjects;
  const json document = json::parse(ended.output);
  for (const json& result : document.at("results")) subjects.insert(result.at("subject"));
  EXPECT_THAT(subjects, UnorderedElementsAre("pipe", "pipe/polled", "gantry/loan"));
}

TEST_F(BenchIpc, SeveralInFlightAndSeveralReadersAreCasesOfTheirOwn) {
  const Ended ended = run({"--sizes", "64", "--rounds", "1", "--json", "--subjects",
                           "cpu-sync,unix-socket", "--cases", "in-flight,fan-out"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  std::map<std::string, std::set<std::string>> metrics;
  const json document = json::parse(ended.output);
  for (const json& result : document.at("results"))
    metrics[result.at("case")].insert(result.at("metric"));
  EXPECT_THAT(metrics["in-flight-4/64 B"],
              UnorderedElementsAre("message_time", "throughput", "cpu_per_gb"));
  for (const char* name : {"fan-out-1/64 B", "fan-out-2/64 B", "fan-out-4/64 B"})
    EXPECT_THAT(metrics[name], UnorderedElementsAre("latency_p50", "latency_p99", "latency_p999",
                                                    "one_way_p50", "send_p50", "send_p99",
                                                    "send_cpu_p50", "throughput", "cpu_per_gb"))
        << name;
}

TEST_F(BenchIpc, HandOffAndComputingAreForThoseThatCan) {
  const Ended ended = run({"--sizes", "64,1M", "--rounds", "1", "--json", "--subjects",
                           "gantry,cpu-sync", "--cases", "hand-off,computing"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  std::map<std::string, std::set<std::string>> subjects, metrics;
  const json document = json::parse(ended.output);
  for (const json& result : document.at("results")) {
    subjects[result.at("case")].insert(result.at("subject"));
    metrics[result.at("case")].insert(result.at("metric"));
    if (result.at("metric") == "compute_speed") {
      EXPECT_GT(result.at("value"), 0);
    }
  }
  EXPECT_EQ(subjects.size(), 3u);
  EXPECT_THAT(subjects["computing/1 MiB"], UnorderedElementsAre("gantry/async"));
  for (const char* name : {"hand-off/64 B", "hand-off/1 MiB"})
    EXPECT_THAT(subjects[name], UnorderedElementsAre("gantry/loan", "gantry/move")) << name;
  EXPECT_TRUE(metrics["computing/1 MiB"].contains("compute_speed"));
  EXPECT_FALSE(metrics["hand-off/1 MiB"].contains("throughput")) << "nothing was moved";
}

TEST_F(BenchIpc, WithNothingToMeasureItSaysSo) {
  for (const auto& words : {std::vector<std::string>{"--cases", "computing", "--sizes", "64"},
                            {"--cases", "hand-off", "--sizes", "64", "--subjects", "cpu-sync"}}) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors, HasSubstr("no subject can be part"));
  }
}

TEST_F(BenchIpc, MessagesOfSeveralPiecesAreReadWhole) {
  const Ended ended = run({"--sizes", "64", "--rounds", "1", "--json", "--subjects",
                           "gantry/sync,unix-socket", "--cases", "shapes"});
  ASSERT_EQ(ended.status, 0) << ended.errors;  // every sum was right
  std::map<std::string, std::size_t> bytes;
  const json document = json::parse(ended.output);
  for (const json& result : document.at("results")) bytes[result.at("case")] = result.at("bytes");
  EXPECT_EQ(bytes["image-batch"], 256u * 3 * 224 * 224 * 4);
  EXPECT_EQ(bytes["frame-4k"], 3840u * 2160 * 3 * 4);
  EXPECT_EQ(bytes["table-40x1M"], 200'000'000u);
  EXPECT_EQ(bytes["csr-graph"], 100'001u * 8 + 2'500'000u * 8 + 100'000u * 512);
}

TEST_F(BenchIpc, PlotIsAnSvgWithEverySubject) {
  const std::string path = scratch_.path() + "/plot.svg";
  const Ended ended = run({"--sizes", "64,1K", "--rounds", "1", "--plot", path});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const std::string svg = text_of(path);
  EXPECT_THAT(svg, StartsWith("<svg "));
  for (const char* subject : {"gantry/sync", "cpu-sync", "unix-socket", "limit/single-copy"})
    EXPECT_THAT(svg, HasSubstr(std::string(">") + subject + "<")) << subject;
}

// What was measured would be lost with it.
TEST_F(BenchIpc, APlotThatCannotBeIsAnErrorBeforeAnythingIsMeasured) {
  const auto plotting = [this](const std::string& sizes, const std::string& to) {
    return run({"--sizes", sizes, "--rounds", "1", "--subjects", "cpu-sync", "--plot",
                scratch_.path() + to});
  };
  const Ended nowhere = plotting("64,1K", "/no/such/folder.svg");
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.errors, HasSubstr("No such file"));
  EXPECT_THAT(nowhere.errors, Not(HasSubstr("(1/"))) << "it was measuring";
  const Ended nothing = plotting("64", "/one.svg");
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.errors, HasSubstr("fewer than two sizes"));
  EXPECT_THAT(nothing.errors, Not(HasSubstr("(1/"))) << "it was measuring";
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/one.svg"));
}

TEST_F(BenchIpc, HelpHasAnExample) {
  const Ended ended = run({"--help"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("Example: gantry bench ipc"));
}

TEST_F(BenchIpc, HelpThatCannotBeWrittenFails) {
  const std::string output = scratch_.path() + "/output";
  std::filesystem::create_symlink("/dev/full", output);
  Program program(GANTRY_BENCH_IPC, scratch_.path(), {"--help"});
  std::filesystem::remove(output);  // it is open by now, and reading from it would never end
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, StartsWith("gantry: bench ipc: standard output: "));
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
}

struct Wrong {
  std::vector<std::string> arguments;
  const char* complaint;
};

class BenchIpcWrongUsage : public BenchIpc, public ::testing::WithParamInterface<Wrong> {};

TEST_P(BenchIpcWrongUsage, IsOneLineAndStatus2) {
  const Ended ended = run(GetParam().arguments);
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.output, IsEmpty());
  EXPECT_THAT(ended.errors, StartsWith("gantry: bench ipc: "));
  EXPECT_THAT(ended.errors, HasSubstr(GetParam().complaint));
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
}

INSTANTIATE_TEST_SUITE_P(
    All, BenchIpcWrongUsage,
    ::testing::Values(Wrong{{"--sizes", "64x"}, "unknown unit"},
                      Wrong{{"--sizes", ""}, "not a number"}, Wrong{{"--sizes"}, "--sizes"},
                      Wrong{{"--rounds", "0"}, "--rounds"}, Wrong{{"--rounds", "-1"}, "--rounds"},
                      Wrong{{"--rounds", "many"}, "--rounds"}, Wrong{{"--bogus"}, "--bogus"},
                      Wrong{{"--subjects", "pigeon"}, "no subject 'pigeon'"},
                      Wrong{{"--cases", "all,odd"}, "no case 'all'"},
                      Wrong{{"--peers", "some"}, "--peers"}, Wrong{{"extra"}, "extra"}));

TEST_F(BenchIpc, MoreThanTheMachineHoldsIsRefusedAtOnce) {
  const Ended ended = run({"--sizes", "64,64T"});
  EXPECT_EQ(ended.status, 2);  // there is no such unit
  const Ended huge = run({"--sizes", "64,65536G"});
  EXPECT_EQ(huge.status, 1);
  EXPECT_THAT(huge.errors, MatchesRegex("gantry: bench ipc: .* needs .* free; choose smaller.*\n"));
}

/// A run that goes on until it is stopped, with all its processes there.
class BenchIpcRunning : public BenchIpc {
 protected:
  void SetUp() override {
    BenchIpc::SetUp();
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us
    bench_.emplace(GANTRY_BENCH_IPC, scratch_.path(),
                   std::vector<std::string>{"--sizes", "64K", "--rounds", "1000"});
    ASSERT_TRUE(bench_->wait_for("(1/1000)"));  // its first round has begun
    children_ = children_of(bench_->pid());
    ASSERT_GE(children_.size(), 2u);
  }

  void expect_nobody_left() {
    for (const int child : children_) EXPECT_FALSE(runs(child)) << child;
  }

  std::optional<Program> bench_;
  std::vector<int> children_;
};

TEST_F(BenchIpcRunning, AnInterruptIsStatus130AndLeavesNothing) {
  for (const int child : children_) ::kill(child, SIGINT);  // a terminal signals all of them
  bench_->signal(SIGINT);
  const auto ended = bench_->wait();
  EXPECT_EQ(ended.status, 130) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("gantry: bench ipc: interrupted\n"));
  expect_nobody_left();
}

/// Which of the children, as a share of their list: ends of Gantry first, limits last.
class BenchIpcKilled : public BenchIpcRunning, public ::testing::WithParamInterface<double> {};

TEST_P(BenchIpcKilled, EndsTheRunWithItsName) {
  const auto last = static_cast<double>(children_.size() - 1);
  ASSERT_EQ(::kill(children_[static_cast<std::size_t>(last * GetParam())], SIGKILL), 0);
  const auto ended = bench_->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr("gantry: bench ipc: 64 KiB: the "));
  EXPECT_THAT(ended.errors, HasSubstr(" died: signal 9 (Killed)"));
  expect_nobody_left();
}

INSTANTIATE_TEST_SUITE_P(All, BenchIpcKilled, ::testing::Values(0, 0.1, 0.3, 0.5, 0.7, 1));

TEST_F(BenchIpcRunning, ProcessesDieWithTheProgram) {
  bench_->signal(SIGKILL);
  bench_->wait();
  for (const int child : children_) EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  for (const auto& entry : std::filesystem::directory_iterator(temporary_)) {
    std::filesystem::remove_all(entry);  // nobody was left to do it
  }
}

}  // namespace
}  // namespace gantry::bench
