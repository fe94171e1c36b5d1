#include <gmock/gmock.h>

#include "pipeline_suite.hpp"

// One job on several devices at once.
namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class PipelineTeam : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"cpu", "opencl", "cuda_stub", "fake"})
      for (const DeviceCase& known : kDevices)
        if (auto made = std::string_view(known.name) == name
                            ? known.make(0)
                            : Result<std::shared_ptr<Device>>(nullptr);
            made && *made)
          devices_.push_back(*std::move(made));
    for (const auto& device : devices_) team_.push_back(device.get());
    ASSERT_GE(team_.size(), 3u);
  }
  PipelineTeamReport run(const PipelineJob& job, const PipelineOptions& options = {}) {
    auto report = run_pipeline(team_, job, options);
    EXPECT_TRUE(report) << to_string(report.error());
    if (!report) return {};
    EXPECT_EQ(report->rates.size(), team_.size());
    std::uint64_t next = 0;
    for (const PipelineShare& share : report->shares) {
      EXPECT_EQ(share.first, next);
      next += share.steps;
    }
    EXPECT_EQ(next, job.steps());
    return *std::move(report);
  }
  Error error_of(const PipelineJob& job) {
    const auto report = run_pipeline(team_, job);
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  }
  static PipelineJob job(const char* kernel, std::uint64_t steps) {
    return {pipeline_source(), kernel, steps};
  }

  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<Device*> team_;
};

TEST_F(PipelineTeam, ComputesWhatALoopDoes) {
  for (const std::uint64_t steps : {1, 15, 16, 1'000, 300'007})
    for (const Staging staging : {Staging::automatic, Staging::direct}) {
      SCOPED_TRACE(fmt::format("{} steps, {}", steps, to_string(staging)));
      PipelineOptions options;
      options.staging = staging;
      const Words before = random_words(steps, 1);
      Words x = before;
      run(job("twice", steps).in_place(std::as_writable_bytes(std::span(x)), 4).count().first(),
          options);
      for (std::uint64_t i = 0; i < steps; ++i)
        ASSERT_EQ(x[i], static_cast<std::uint32_t>(2 * before[i] + i)) << i;
    }
}

TEST_F(PipelineTeam, HalosReachIntoWhatOthersCompute) {
  constexpr std::uint64_t kRows = 20'000, kWidth = 4;
  const Words x = random_words(kRows * kWidth, 5);
  Words y(kRows * kWidth);
  run(job("stencil", kRows)
          .input(std::span(x), kWidth, Halo{1, 2, Edge::zero})
          .output(std::span(y), kWidth)
          .count()
          .value(std::uint32_t{kWidth})
          .value(std::uint32_t{1})
          .value(std::uint32_t{2})
          .range([](std::uint64_t steps) { return LaunchRange::linear(steps * kWidth); }));
  for (std::uint64_t i = 0; i < y.size(); ++i) {
    std::uint32_t sum = 0;
    for (std::uint32_t k = 0; k < 4; ++k) {
      const std::uint64_t at = i + k * kWidth;
      if (at >= kWidth && at - kWidth < x.size()) sum += (k + 1) * x[at - kWidth];
    }
    ASSERT_EQ(y[i], sum) << i;
  }
}

TEST_F(PipelineTeam, ReductionsAreFoldedByTheCallerInTheOrderOfTheSteps) {
  constexpr std::uint64_t kSteps = 200'000;
  const Words x = random_words(kSteps, 9);
  std::uint64_t sum = 0, next = 0, index = 0;
  const auto caller = std::this_thread::get_id();
  const auto fold = [&](ConstByteSpan partial, const Chunk& chunk) -> Result<void> {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(chunk.first, next);
    index += chunk.steps != 0 ? 1 : 0;  // other partial results of a chunk come without steps
    EXPECT_EQ(chunk.index + 1, index);
    next += chunk.steps;
    for (std::size_t i = 0; i < 16; ++i) {
      std::uint64_t part = 0;
      std::memcpy(&part, partial.data() + i * sizeof part, sizeof part);
      sum += part;
    }
    return {};
  };
  run(job("total", kSteps)
          .input(std::span(x))
          .reduction(128, fold)
          .count()
          .value(std::uint32_t{16})
          .range([](std::uint64_t) { return LaunchRange::linear(16); }));
  EXPECT_EQ(sum, std::accumulate(x.begin(), x.end(), std::uint64_t{0}));
  EXPECT_EQ(next, kSteps);
}

TEST_F(PipelineTeam, AFailureNamesItsDeviceAndTheOthersGoOn) {
  const auto script = std::make_shared<FaultScript>();
  const auto bad = *make_fake_device(script);
  script->fail_at(2, Code::kernel_fault);
  team_.push_back(bad.get());
  Words x(100'000, 1);
  const auto twice =
      job("twice", x.size()).in_place(std::as_writable_bytes(std::span(x)), 4).count().first();
  const Error error = error_of(twice);
  EXPECT_EQ(error.code, Code::kernel_fault);
  EXPECT_THAT(error.message, AllOf(StartsWith("fake: chunk 0 (steps "), HasSubstr("scripted")));
  for (Device* const device : team_) EXPECT_TRUE(device->state());
  run(twice);
}

TEST_F(PipelineTeam, WhatCannotBeSplitIsRefused) {
  Words x(100);
  const auto read = [](std::uint64_t, ByteSpan) -> Result<void> { return {}; };
  const Error error = error_of(job("weigh", 100)
                                   .input(PipelineSource::reader(400, read), 4)
                                   .input(PipelineSource::reader(400, read), 4)
                                   .output(std::span(x))
                                   .count());
  EXPECT_EQ(error.code, Code::unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("argument 0"), HasSubstr("reader")));
  team_.clear();
  EXPECT_EQ(error_of(job("weigh", 100).output(std::span(x))).code, Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
