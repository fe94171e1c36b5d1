// The program as `gantry bench ipc` starts it: its document, its complaints, and what stays behind.

#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class BenchIpc : public RunningBenchTest {
 protected:
  BenchIpc() : RunningBenchTest("ipc") {}
};

TEST_F(BenchIpc, JsonIsOneDocumentOfTheContract) {
  const json document = document_of({"--sizes", "64"});
  expect_contract(document, name_);
  EXPECT_THAT(document.at("skipped"), IsEmpty());
  ASSERT_FALSE(document.at("results").empty());
  for (const json& result : document.at("results")) {
    EXPECT_EQ(result.at("case"), "64 B");
    EXPECT_EQ(result.at("bytes"), 64);
  }
}

TEST_F(BenchIpc, EverySubjectHasEveryMetricInItsUnit) {
  const json document = document_of({"--sizes", "4K"});
  std::map<std::string, Names> metrics;
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

// Each sum is compared with a loop's; one that differs ends the run.
TEST_F(BenchIpc, EveryWayOfConvertingBringsTheSumOfAPlainLoop) {
  const json document = document_of({"--cases", "typed", "--sizes", "4K,1M"});
  for (const char* name : {"typed/4 KiB", "typed/1 MiB"})
    EXPECT_THAT(subjects_by_case(document, "latency_p50")[name],
                ::testing::IsSupersetOf(
                    {"gantry/as-whole", "gantry/as-pipelined", "gantry/as-streamed",
                     "convert-then-send", "send-then-convert/whole", "send-then-convert/pipelined",
                     "convert-at-reader/pipelined", "convert-at-reader/streamed"}));
}

TEST_F(BenchIpc, OnlySubjectsThatAreNamedTakePart) {
  const json document = document_of({"--sizes", "64", "--subjects", "pipe,gantry/loan"});
  EXPECT_THAT(subjects_by_case(document, "latency_p50")["64 B"],
              UnorderedElementsAre("pipe", "pipe/polled", "gantry/loan"));
}

TEST_F(BenchIpc, WhatDoesNotGoTogetherIsSaid) {
  const auto errors = [&](const Words& arguments) { return run(arguments).errors; };
  EXPECT_THAT(errors({"--cases", "computing", "--sizes", "64"}),
              HasSubstr("the --cases chosen have none of these --sizes"));
  EXPECT_THAT(errors({"--cases", "hand-off", "--sizes", "64", "--subjects", "gantry/sync"}),
              HasSubstr("none of the --subjects chosen is part of these --cases"));
}

TEST_F(BenchIpc, SeveralInFlightAndSeveralReadersAreCasesOfTheirOwn) {
  auto metrics = grouped(document_of({"--sizes", "64", "--subjects", "cpu-sync,unix-socket",
                                      "--cases", "in-flight,fan-out"}),
                         "case", "metric");
  EXPECT_THAT(metrics["in-flight-4/64 B"],
              UnorderedElementsAre("message_time", "throughput", "cpu_per_gb"));
  for (const char* name : {"fan-out-1/64 B", "fan-out-2/64 B", "fan-out-4/64 B"})
    EXPECT_THAT(metrics[name], UnorderedElementsAre("latency_p50", "latency_p99", "latency_p999",
                                                    "one_way_p50", "send_p50", "send_p99",
                                                    "send_cpu_p50", "throughput", "cpu_per_gb"))
        << name;
}

TEST_F(BenchIpc, AStreamBesideMovesWhileOthersAreMeasured) {
  const json document = document_of(
      {"--sizes", "64,1M", "--subjects", "gantry/sync,limit/two-lines", "--cases", "beside"});
  auto subjects = grouped(document, "case", "subject");
  EXPECT_EQ(subjects.size(), 6u) << "1 MiB is a stream itself";
  for (const char* name : {"beside-nothing/64 B", "beside-nothing-paced/64 B"})
    EXPECT_THAT(subjects[name], UnorderedElementsAre("gantry/sync", "limit/two-lines")) << name;
  for (const char* name : {"beside-stream/64 B", "beside-copies/64 B", "beside-stream-paced/64 B",
                           "beside-copies-paced/64 B"})
    EXPECT_THAT(subjects[name],
                UnorderedElementsAre("gantry/sync", "limit/two-lines", "beside/16 MiB"))
        << name;
  for (const json& result : document.at("results"))
    if (result.at("metric") != "cpu_per_gb") {  // a few trips may take less than a tick
      EXPECT_GT(result.at("value"), 0) << result;
    }
}

TEST_F(BenchIpc, HandOffAndComputingAreForThoseThatCan) {
  const json document = document_of(
      {"--sizes", "64,1M", "--subjects", "gantry,cpu-sync", "--cases", "hand-off,computing"});
  auto subjects = grouped(document, "case", "subject"),
       metrics = grouped(document, "case", "metric");
  for (const json& result : document.at("results")) {
    if (result.at("metric") != "compute_speed") continue;
    EXPECT_GT(result.at("value"), 0);
  }
  EXPECT_EQ(subjects.size(), 3u);
  EXPECT_THAT(subjects["computing/1 MiB"], UnorderedElementsAre("gantry/async"));
  for (const char* name : {"hand-off/64 B", "hand-off/1 MiB"})
    EXPECT_THAT(subjects[name], UnorderedElementsAre("gantry/loan", "gantry/move")) << name;
  EXPECT_TRUE(metrics["computing/1 MiB"].contains("compute_speed"));
  EXPECT_FALSE(metrics["hand-off/1 MiB"].contains("throughput")) << "nothing was moved";
}

TEST_F(BenchIpc, DecisionsAreThoseOfAScan) {
  const json document = document_of(  // every answer was right
      {"--sizes", "64,64K,1M", "--cases", "decisions"});
  auto subjects = grouped(document, "case", "subject");
  EXPECT_EQ(subjects.size(), 3u);
  for (const char* name : {"top/64 KiB", "top/1 MiB", "nearest/1 MiB"})
    EXPECT_THAT(subjects[name],
                testing::IsSupersetOf({"gantry/decide-whole", "gantry/decide-pipelined",
                                       "send-then-scan/whole", "send-then-scan/pipelined"}))
        << name;
}

TEST_F(BenchIpc, WithNothingToMeasureItSaysSo) {
  const Ended sizes = run({"--cases", "computing", "--sizes", "64"});
  EXPECT_EQ(sizes.status, 1);
  EXPECT_THAT(sizes.errors, HasSubstr("the --cases chosen have none of these --sizes"));
  const Ended subjects = run({"--cases", "hand-off", "--sizes", "64", "--subjects", "cpu-sync"});
  EXPECT_EQ(subjects.status, 1);
  EXPECT_THAT(subjects.errors, HasSubstr("none of the --subjects chosen is part of these --cases"));
}

TEST_F(BenchIpc, MessagesOfSeveralPiecesAreReadWhole) {
  const json document = document_of(  // every sum was right
      {"--sizes", "64", "--subjects", "gantry/sync,unix-socket", "--cases", "shapes"});
  std::map<std::string, std::size_t> bytes;
  for (const json& result : document.at("results")) bytes[result.at("case")] = result.at("bytes");
  EXPECT_EQ(bytes["image-batch"], 256u * 3 * 224 * 224 * 4);
  EXPECT_EQ(bytes["frame-4k"], 3840u * 2160 * 3 * 4);
  EXPECT_EQ(bytes["table-40x1M"], 200'000'000u);
  EXPECT_EQ(bytes["csr-graph"], 100'001u * 8 + 2'500'000u * 8 + 100'000u * 512);
}

TEST_F(BenchIpc, PlotIsAnSvgWithEverySubject) {
  const std::string path = scratch_.path() + "/plot.svg";
  const Ended ended = run({"--sizes", "64,1K", "--rounds", "1", "--plot", path, "--subjects",
                           "gantry/sync,cpu-sync,unix-socket,limit/single-copy"});
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
  const Ended other = plotting("64,1K", "/picture.png");
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.errors, HasSubstr("'.png' is no ending of an SVG file"));
  EXPECT_THAT(other.errors, Not(HasSubstr("(1/"))) << "it was measuring";
}

/// A run with all its processes there.
class BenchIpcRunning : public BenchIpc {
 protected:
  void SetUp() override {
    BenchIpc::SetUp();
    ASSERT_NO_FATAL_FAILURE(begin({"--sizes", "64K", "--rounds", "1000"}, "(1/1000)", 2));
  }
};

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
  clear_temporary();
}

}  // namespace
}  // namespace gantry::bench
