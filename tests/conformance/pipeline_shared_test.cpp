#include <gmock/gmock.h>

#include "pipeline_suite.hpp"

// Where a device's memory is the host's it computes on the caller's memory, and copies nothing.
namespace gantry {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kSharedSteps = 100'000;

class PipelineShared : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (device_->facts().in_place_alignment == 0) GTEST_SKIP() << "it has memory of its own";
  }
  PipelineReport weigh(std::span<const std::uint32_t> x, std::span<std::uint32_t> z,
                       const PipelineOptions& options = {}) {
    const Words before(x.begin(), x.end());
    auto report =
        run(job("weigh", kSharedSteps).input(x).input(std::span(y_)).output(z).count(), options);
    for (std::uint64_t i = 0; i < kSharedSteps; ++i)
      if (z[i] != before[i] + 3 * y_[i]) {
        ADD_FAILURE() << i;
        break;
      }
    return report;
  }

  Words x_ = random_words(kSharedSteps + 1, 1);
  const Words y_ = random_words(kSharedSteps, 2);
  Words z_ = Words(kSharedSteps);
};

TEST_P(PipelineShared, NothingIsCopiedAndItSaysSo) {
  const auto report = weigh(std::span(x_).first(kSharedSteps), z_);
  for (const std::size_t argument : {0, 1, 2})
    EXPECT_EQ(report.plan.staging[argument], Staging::shared);
  EXPECT_EQ(report.plan.device_bytes, 0u);
  EXPECT_EQ(report.plan.ring_bytes, 0u);
  EXPECT_EQ(report.copy_in.count() + report.copy_out.count(), 0);
  EXPECT_EQ(report.bytes_in, 8 * kSharedSteps);
  EXPECT_THAT(report.explain().text(), HasSubstr("in place, no copies"));
}

TEST_P(PipelineShared, ModesThatAreNamedAfterCopiesCopy) {
  for (const PipelineMode mode : {PipelineMode::sequential, PipelineMode::sequential_pinned,
                                  PipelineMode::overlapped_pageable,
                                  PipelineMode::overlapped_pinned, PipelineMode::unbatched}) {
    PipelineOptions options;
    options.mode = mode;
    const auto report = weigh(std::span(x_).first(kSharedSteps), z_, options);
    EXPECT_THAT(report.plan.staging, Not(Contains(Staging::shared))) << to_string(mode);
    EXPECT_GT(report.copy_in.count(), 0) << to_string(mode);
    EXPECT_GE(report.plan.device_bytes, 12u) << to_string(mode);
  }
}

TEST_P(PipelineShared, MemoryIsCopiedWhereAKernelMightOutliveTheCallOrACopierIsWanted) {
  PipelineOptions limited, until, copied;
  limited.stall_limit = std::chrono::hours(1);
  until.deadline = Deadline::after(std::chrono::hours(1));
  copied.copier = *make_inline_engine();
  for (const auto& [options, why] :
       {std::pair(limited, "its time is over"), std::pair(until, "its time is over"),
        std::pair(copied, "a copier was given")}) {
    const auto report = weigh(std::span(x_).first(kSharedSteps), z_, options);
    EXPECT_THAT(report.plan.staging, Not(Contains(Staging::shared))) << why;
    EXPECT_THAT(report.plan.reasons, Contains(HasSubstr(why)));
  }
}

TEST_P(PipelineShared, MemoryThatBeginsElsewhereOrIsAnothersResultIsCopied) {
  const auto shifted = weigh(std::span(x_).last(kSharedSteps), z_);
  EXPECT_EQ(shifted.plan.staging[0], Staging::direct);
  EXPECT_EQ(shifted.plan.staging[1], Staging::shared);
  EXPECT_THAT(shifted.plan.reasons,
              Contains(AllOf(HasSubstr("argument 0 is copied"), HasSubstr("no multiple of"))));
  const std::span<std::uint32_t> both = std::span(x_).first(kSharedSteps);
  const auto onto = weigh(both, both);
  EXPECT_EQ(onto.plan.staging[0], Staging::direct);
  EXPECT_EQ(onto.plan.staging[1], Staging::shared);
  EXPECT_EQ(onto.plan.staging[2], Staging::direct);
  EXPECT_THAT(onto.plan.reasons, Contains(HasSubstr("another argument lies there")));
}

// By hand, too, and then whatever chunks are asked for: those that do not fit are copied.
TEST_P(PipelineShared, ChunksOfAnySizeGiveTheSame) {
  PipelineOptions options;
  options.staging = Staging::shared;
  for (const std::uint64_t chunk : {1'001, 1'024, 33'333, 1'000'000}) {
    options.chunk_steps = chunk;
    std::ranges::fill(z_, 0u);
    const auto report = weigh(std::span(x_).first(kSharedSteps), z_, options);
    EXPECT_EQ(report.plan.chunks, (kSharedSteps - 1) / chunk + 1);
    EXPECT_EQ(report.copy_in.count() == 0, chunk == 1'024 || chunk > kSharedSteps) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineShared, testing::ValuesIn(kDevices),
                         pipeline_device_name);

// ---- what kernels see ----------------------------------------------------------------------

/// Where each chunk's input lay.
struct Seen {
  std::mutex mutex;
  std::map<std::uint64_t, const std::uint32_t*> at;
};

TEST(SharedPipeline, OfAHaloOnlyTheEndsAreCopied) {
  constexpr std::uint64_t kRows = 5000, kWidth = 16;
  const auto device = *make_cpu_device({.threads = 2});
  const Words x = random_words(kRows * kWidth, 3);
  Words y(kRows);
  Seen seen;
  ProgramSource source;
  source.cpu["ends"] = [&seen](const CpuArguments& with, const CpuSlice& slice) -> Result<void> {
    const auto in = with.span<std::uint32_t>(0), out = with.span<std::uint32_t>(1);
    {
      const std::lock_guard lock(seen.mutex);
      seen.at[with.value<std::uint64_t>(2)] = in.data();
    }
    for (std::size_t i = slice.first; i < slice.last; ++i)
      out[i] = in[i * kWidth] + in[(i + 5) * kWidth + kWidth - 1];
    return {};
  };
  const auto report = run_pipeline(*device, PipelineJob(source, "ends", kRows)
                                                .input(std::span(x), kWidth, {2, 3, Edge::wrap})
                                                .output(std::span(y))
                                                .first());
  ASSERT_TRUE(report) << to_string(report.error());
  for (std::uint64_t i = 0; i < kRows; ++i)
    ASSERT_EQ(y[i], x[(i + kRows - 2) % kRows * kWidth] + x[(i + 3) % kRows * kWidth + kWidth - 1])
        << i;
  ASSERT_EQ(seen.at.size(), 3u);
  std::uint64_t in_place = 0;
  for (const auto& [first, at] : seen.at)
    if (first >= 2 && at == x.data() + (first - 2) * kWidth) ++in_place;
  EXPECT_EQ(in_place, 1u);  // the one between, which is nearly all
  EXPECT_LE(std::next(seen.at.begin())->first, 8u);
  EXPECT_GE(std::prev(seen.at.end())->first, kRows - 8);
}

TEST(SharedPipeline, WhatAKernelMayHaveChangedIsNotComputedAgain) {
  const auto script = std::make_shared<FaultScript>();
  const auto device = *make_cpu_device(
      {.threads = 2, .before = [script](std::string_view what) { return script->next(what); }});
  script->fail_at(2, Code::device_full);  // the first launch goes well
  Words x(1000, 1);
  PipelineOptions options;
  options.chunk_steps = 400;
  options.depth = 1;
  const auto run = [&] {
    return run_pipeline(*device,
                        PipelineJob(pipeline_source(), "twice", x.size())
                            .in_place(std::as_writable_bytes(std::span(x)), 4)
                            .count()
                            .first(),
                        options);
  };
  const auto report = run();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::device_full);
  EXPECT_THAT(report.error().message, testing::StartsWith("chunk 0 (steps 0 to 399)"));
  EXPECT_EQ(x[0], 2u);  // it was computed before the failure
  EXPECT_TRUE(run());
}

TEST(SharedPipeline, ADeviceWithMemoryOfItsOwnCannot) {
  const auto device = *make_fake_device(std::make_shared<FaultScript>());
  Words x(100, 1);
  PipelineOptions options;
  options.staging = Staging::shared;
  const auto report = run_pipeline(*device,
                                   PipelineJob(pipeline_source(), "twice", 100)
                                       .in_place(std::as_writable_bytes(std::span(x)), 4)
                                       .count()
                                       .first(),
                                   options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::unsupported);
  EXPECT_THAT(report.error().message, HasSubstr("shared"));
}

}  // namespace
}  // namespace gantry
