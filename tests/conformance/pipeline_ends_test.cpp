#include <gmock/gmock.h>

#include "pipeline_suite.hpp"

// What the caller's own functions say, or throw: the run ends with that, and names the chunk.
namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using PipelineEnds = PipelineTest;

TEST_P(PipelineEnds, WhatReadersWritersAndFoldsSayNamesTheChunk) {
  constexpr std::uint64_t kSteps = 100;
  const Words y(kSteps);
  Words z(kSteps);
  const auto read = [](std::uint64_t offset, ByteSpan to) -> Result<void> {
    std::ranges::fill(to, std::byte{});
    if (offset == 80) return fail(Code::busy, "the tape is torn");
    if (offset == 120) throw std::runtime_error("the tape burns");
    return {};
  };
  const auto write = [](std::uint64_t offset, ConstByteSpan) -> Result<void> {
    if (offset == 200) return fail(Code::busy, "the tape is full");
    return {};
  };
  const auto fold = [](ConstByteSpan, const Chunk& chunk) -> Result<void> {
    if (chunk.index == 3) return fail(Code::busy, "no more");
    return {};
  };
  const auto reader = PipelineSource::reader(4 * kSteps, read);
  for (const PipelineMode mode : {PipelineMode::automatic, PipelineMode::sequential}) {
    PipelineOptions options = in_chunks(10);
    options.mode = mode;
    Error error = error_of(
        job("weigh", kSteps).input(reader, 4).input(std::span(y)).output(std::span(z)).count(),
        options);
    EXPECT_EQ(error.code, Code::busy);
    EXPECT_THAT(error.message, AllOf(StartsWith("chunk 2 (steps 20 to 29)"), HasSubstr("torn")));
    options.chunk_steps = 30;
    error = error_of(
        job("weigh", kSteps).input(reader, 4).input(std::span(y)).output(std::span(z)).count(),
        options);
    EXPECT_THAT(error.message, AllOf(StartsWith("chunk 1 (steps 30 to 59)"), HasSubstr("burns")));
    options.chunk_steps = 25;
    error = error_of(job("weigh", kSteps)
                         .input(std::span(y))
                         .input(std::span(y))
                         .output(PipelineSink::writer(4 * kSteps, write), 4)
                         .count(),
                     options);
    EXPECT_THAT(error.message, AllOf(StartsWith("chunk 2 (steps 50 to 74)"), HasSubstr("full")));
    error = error_of(job("total", kSteps)
                         .input(std::span(y))
                         .reduction(128, fold)
                         .count()
                         .value(std::uint32_t{16})
                         .range([](std::uint64_t) { return LaunchRange::linear(16); }),
                     options);
    EXPECT_THAT(error.message, AllOf(StartsWith("chunk 3 (steps 75 to 99)"), HasSubstr("no more")));
  }
  run(job("weigh", kSteps).input(std::span(y)).input(std::span(y)).output(std::span(z)).count());
}

TEST_P(PipelineEnds, WhatIsReadBeforeTheFirstChunkNamesItToo) {
  Words z(100);
  for (const bool throws : {false, true}) {
    const auto torn = PipelineSource::reader(400, [=](std::uint64_t, ByteSpan) -> Result<void> {
      if (throws) throw std::runtime_error("it is torn");
      return fail(Code::busy, "it is torn");
    });
    const Halo halo{1, 0, Edge::clamp};
    const std::pair<PipelineJob, const char*> cases[] = {
        {job("weigh", 100).input(torn, 4, halo).output(std::span(z)), "the edge of argument 0"},
        {job("weigh", 100).broadcast(torn).output(std::span(z)), "the broadcast, argument 0"}};
    for (const auto& [bad, why] : cases) {
      const Error error = error_of(bad);
      EXPECT_EQ(error.code, throws ? Code::system : Code::busy);
      EXPECT_THAT(error.message, AllOf(StartsWith("chunk 0: "), HasSubstr(why), HasSubstr("torn")));
    }
  }
}

TEST_P(PipelineEnds, TheirTimeCountsToo) {
  constexpr std::uint64_t kSteps = 100;
  const Words x(kSteps);
  for (const PipelineMode mode :
       {PipelineMode::automatic, PipelineMode::overlapped_pageable, PipelineMode::sequential}) {
    PipelineOptions options = in_chunks(25, 4);
    options.mode = mode;
    options.deadline = Deadline::after(std::chrono::milliseconds(20));
    std::uint64_t written = 0;
    const auto write = [&](std::uint64_t, ConstByteSpan from) -> Result<void> {
      while (!options.deadline.passed()) std::this_thread::yield();
      written += from.size();
      return {};
    };
    const Error error = error_of(job("weigh", kSteps)
                                     .input(std::span(x))
                                     .input(std::span(x))
                                     .output(PipelineSink::writer(4 * kSteps, write), 4)
                                     .count(),
                                 options);
    EXPECT_EQ(error.code, Code::timed_out);
    EXPECT_THAT(error.message, StartsWith("chunk "));
    EXPECT_LE(written, 100u);  // one chunk
  }
}

// What they say is their own affair: smaller chunks would tell them of the same steps twice.
TEST_P(PipelineEnds, ASinkThatIsFullEndsTheRunAndIsNotAskedAgain) {
  constexpr std::uint64_t kSteps = 100;
  const Words x(kSteps);
  for (const Code code : {Code::too_large, Code::device_full}) {
    std::uint64_t folded = 0;
    int written = 0;
    const auto fold = [&](ConstByteSpan, const Chunk& chunk) -> Result<void> {
      folded += chunk.steps;
      return {};
    };
    const auto write = [&](std::uint64_t, ConstByteSpan) -> Result<void> {
      if (++written == 3) return fail(code, "no message is as long");
      return {};
    };
    const Error error =
        error_of(job("rows", kSteps)
                     .input(std::span(x))
                     .reduction(4, fold, std::byte{1})
                     .output(PipelineSink::writer(8 * kSteps, write), 8)
                     .reduction(kSteps, [](ConstByteSpan, const Chunk&) { return Result<void>{}; })
                     .count()
                     .value(std::uint32_t{1})
                     .value(std::uint32_t{1}),
                 in_chunks(10));
    EXPECT_EQ(error.code, code);
    EXPECT_THAT(error.message, AllOf(StartsWith("chunk 2 (steps 20 to 29)"), HasSubstr("as long")));
    EXPECT_EQ(folded, 30u);
    EXPECT_EQ(written, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineEnds, testing::ValuesIn(kDevices), pipeline_device_name);

}  // namespace
}  // namespace gantry
