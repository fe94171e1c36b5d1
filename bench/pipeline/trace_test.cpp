// What --trace writes: times are those of the device's own events, so it says what overlapped.

#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"
#include "trace.hpp"

namespace gantry::bench {
namespace {

struct Span {
  double began = 0;
  double ended = 0;
  std::uint64_t chunk = 0;
};
/// By the names of process and track, in the order of their beginning.
using Tracks = std::map<std::string, std::map<std::string, std::vector<Span>>>;

Tracks tracks_of(const json& document) {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  Tracks tracks;
  for (const json& event : document.at("traceEvents")) {
    const int process = event.at("pid"), thread = event.at("tid");
    if (event.at("name") == "process_name") processes[process] = event.at("args").at("name");
    if (event.at("name") == "thread_name") {
      threads[{process, thread}] = event.at("args").at("name");
      tracks[processes.at(process)][threads.at({process, thread})];
    }
    if (event.at("ph") != "X") continue;
    const double began = event.at("ts"), length = event.at("dur");
    tracks.at(processes.at(process))
        .at(threads.at({process, thread}))
        .push_back({began, began + length, event.at("args").at("chunk")});
  }
  for (auto& [process, of_process] : tracks)
    for (auto& [thread, spans] : of_process) std::ranges::sort(spans, {}, &Span::began);
  return tracks;
}

constexpr double kRounding = 0.01;  // us: times are written as decimals

void expect_one_after_the_other(const std::vector<Span>& spans) {
  for (std::size_t i = 1; i < spans.size(); ++i)
    EXPECT_GE(spans[i].began, spans[i - 1].ended - kRounding) << "chunk " << spans[i].chunk;
}

void expect_after(const std::vector<Span>& later, const std::vector<Span>& earlier) {
  ASSERT_EQ(later.size(), earlier.size());
  for (std::size_t i = 0; i < later.size(); ++i) {
    EXPECT_EQ(later[i].chunk, earlier[i].chunk);
    EXPECT_GE(later[i].began, earlier[i].ended - kRounding) << "chunk " << later[i].chunk;
  }
}

class BenchPipelineTrace : public BenchTest {
 protected:
  BenchPipelineTrace() : BenchTest("pipeline") {}

  Tracks trace(Words arguments, const std::string& process) const {
    const std::string file = scratch_.path() + "/trace.json";
    for (const char* word : {"--rounds", "1", "--cases", "vector-add", "--sizes", "4M", "--trace"})
      arguments.emplace_back(word);
    arguments.push_back(file);
    const Ended ended = run(std::move(arguments));
    EXPECT_EQ(ended.status, 0) << ended.errors;
    const Tracks tracks = tracks_of(json::parse(text_of(file)));
    EXPECT_EQ(tracks.contains(process), ended.output.find(process) != std::string::npos);
    return tracks;
  }
};

void expect_three_streams(std::map<std::string, std::vector<Span>> tracks) {
  EXPECT_GT(tracks["compute"].size(), 1);
  for (const auto& [name, spans] : tracks) {
    SCOPED_TRACE(name);
    expect_one_after_the_other(spans);
  }
  expect_after(tracks["compute"], tracks["copy in"]);
  expect_after(tracks["copy out"], tracks["compute"]);
}

TEST_F(BenchPipelineTrace, StreamsKeepTheirOrderOnCpu) {
  Tracks tracks =
      trace({"--devices", "cpu", "--subjects", "sequential,overlapped-pageable"}, "cpu/sequential");
  expect_three_streams(tracks["cpu/overlapped-pageable"]);
  expect_three_streams(tracks["cpu/sequential"]);
  EXPECT_EQ(tracks.size(), 2);
}

TEST_F(BenchPipelineTrace, StreamsKeepTheirOrderOnOpenCl) {
  Tracks tracks = trace({"--devices", "cpu,opencl", "--subjects", "overlapped-pageable"},
                        "opencl/overlapped-pageable");
  if (!tracks.contains("opencl/overlapped-pageable")) GTEST_SKIP() << "no OpenCL here";
  expect_three_streams(tracks["opencl/overlapped-pageable"]);
}

TEST(Trace, TimesBeginWithTheRunAndWhatTookNoTimeIsLeftOut) {
  const DeviceTiming::Time zero{std::chrono::hours(7)};
  const auto at = [&](int begin_us, int end_us) {
    return DeviceTiming{zero, zero + std::chrono::microseconds(begin_us),
                        zero + std::chrono::microseconds(end_us)};
  };
  ChunkTimes times;
  times.chunk = {4, 100, 20};
  times.copy_in = at(10, 30);
  times.compute = at(30, 35);
  times.stage_out = at(40, 42);
  const json document = json::parse(to_trace({{"a run", {times}}}));
  EXPECT_EQ(document.at("displayTimeUnit"), "ms");
  Tracks tracks = tracks_of(document);
  EXPECT_EQ(tracks["a run"].size(), 5);  // three streams, and the host's two sides
  EXPECT_TRUE(tracks["a run"]["copy out"].empty());
  ASSERT_EQ(tracks["a run"]["compute"].size(), 1);
  EXPECT_DOUBLE_EQ(tracks["a run"]["copy in"][0].began, 0);
  EXPECT_DOUBLE_EQ(tracks["a run"]["compute"][0].began, 20);
  EXPECT_DOUBLE_EQ(tracks["a run"]["compute"][0].ended, 25);
  EXPECT_DOUBLE_EQ(tracks["a run"]["host: out of the ring"][0].began, 30);
}

}  // namespace
}  // namespace gantry::bench
