#include <gmock/gmock.h>

#include <filesystem>

#include "pipeline_suite.hpp"

// What goes wrong names its chunk, and leaves device and process as they were.
namespace gantry {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;
using PipelineFaults = PipelineTest;

std::size_t threads() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// ---- jobs that can never work --------------------------------------------------------------

TEST_P(PipelineFaults, SizesThatDoNotCorrespondAreRefusedWithTheNumbers) {
  const Words x(100), y(99);
  Words z(100);
  const Error error = error_of(
      job("weigh", 100).input(std::span(x)).input(std::span(y)).output(std::span(z)).count());
  EXPECT_EQ(error.code, Code::invalid_argument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("argument 1"), HasSubstr("396"), HasSubstr("400")));
}

TEST_P(PipelineFaults, JobsOfNothingAreRefused) {
  Words x(10);
  const auto memory = std::as_writable_bytes(std::span(x));
  const auto keep = [](ConstByteSpan, const Chunk&) -> Result<void> { return {}; };
  const std::pair<PipelineJob, const char*> cases[] = {
      {job("weigh", 0).output(std::span(x)), "0 steps"},
      {job("weigh", 10).input(std::span(x)), "neither"},
      {job("weigh", 10).output(PipelineSink::memory(memory), 0), "0 bytes per step"},
      {job("weigh", 10).output(std::span(x)).broadcast(PipelineSource::memory({})), "0 bytes"},
      {job("weigh", 10).output(std::span(x)).reduction(0, keep), "0 bytes per step"},
      {job("weigh", 10).output(std::span(x)).reduction(8, {}), "fold"},
      {job("weigh", 10).output(PipelineSink::memory({static_cast<std::byte*>(nullptr), 40}), 4),
       "address 0"},
      {job("weigh", 10).output(PipelineSink::writer(40, {}), 4), "writer"},
      {job("weigh", 10).output(std::span(x)).input(PipelineSource::reader(40, {}), 4), "reader"},
      {job("twice", 10).in_place(PipelineSink::writer(40, {}), 4), "in place of writer"},
      {job("weigh", 10).output(PipelineSink::message(), 4), "run_stage"},
      {job("weigh", ~std::uint64_t{0}).output(std::span(x)), "64 bits"},
      {job("weigh", 10).output(std::span(x)).reduction(~Bytes{0}, keep), "argument 1: a step of"},
      {job("weigh", 10)
           .output(std::span(x))
           .broadcast(PipelineSource::memory({static_cast<std::byte*>(nullptr), 40})),
       "address 0"},
      {job("weigh", 1)
           .output(std::span(x).first(1))
           .input(std::span(x).last(1), 1, {std::uint64_t{1} << 30, 0, Edge::wrap}),
       "wraps round 1 steps"},
  };
  for (const auto& [bad, why] : cases) {
    const Error error = error_of(bad);
    EXPECT_EQ(error.code, Code::invalid_argument) << why;
    EXPECT_THAT(error.message, HasSubstr(why));
  }
  PipelineOptions deep;
  deep.depth = 65;
  EXPECT_THAT(error_of(job("weigh", 10).output(std::span(x)), deep).message, HasSubstr("65"));
}

TEST_P(PipelineFaults, AnOutputMayLieOnItsInputStepForStepAndNotOtherwise) {
  constexpr std::uint64_t kSteps = 1000;
  const Words before = random_words(kSteps, 1);
  Words x = before;
  x.resize(kSteps + 10);
  const std::span<std::uint32_t> whole(x), same = whole.first(kSteps);
  run(job("weigh", kSteps).input(same).input(same).output(same).count(), in_chunks(77));
  for (std::uint64_t i = 0; i < kSteps; ++i) ASSERT_EQ(x[i], 4 * before[i]);

  const auto refused = [&](const PipelineJob& bad, const char* why) {
    const Words untouched = x;
    const Error error = error_of(bad, in_chunks(77));
    EXPECT_EQ(error.code, Code::invalid_argument);
    EXPECT_THAT(error.message, AllOf(HasSubstr("overlaps"), HasSubstr(why)));
    EXPECT_EQ(x, untouched);
  };
  refused(job("weigh", kSteps).input(same).input(same).output(whole.subspan(1, kSteps)).count(),
          "argument 0");
  refused(job("weigh", kSteps).input(same, 1, Halo{1, 0}).input(same).output(same).count(),
          "argument 0");
  refused(job("weigh", kSteps).broadcast(same).input(same).output(same).count(), "argument 0");
  refused(
      job("weigh", kSteps / 2).input(same, 2).input(same, 2).output(same.first(kSteps / 2)).count(),
      "argument 0");
  refused(job("weigh", kSteps)
              .output(same)
              .output(whole.subspan(10, kSteps))
              .input(std::span(before))
              .count(),
          "argument 0");
}

TEST_P(PipelineFaults, AKernelThatDoesNotCompileComesWithTheLog) {
  ProgramSource bad = pipeline_source();
  bad.cuda.source =
      "__global__ void k(int* x) {\n  x[0] = nonsense;  // stub: error \"nonsense\"\n}\n";
  bad.opencl.source = "kernel void weigh(global uint* x) {\n  x[0] = nonsense;\n}\n";
  bad.cpu.clear();
  Words x(10);
  const auto report =
      run_pipeline(*device_, PipelineJob(bad, "weigh", 10).output(std::span(x)).count());
  ASSERT_FALSE(report);
  if (device_->facts().kind == DeviceKind::cpu) {
    EXPECT_EQ(report.error().code, Code::unsupported);
    return;
  }
  EXPECT_EQ(report.error().code, Code::build_failed);
  EXPECT_THAT(report.error().message, HasSubstr("nonsense"));
  EXPECT_THAT(report.error().message, testing::ContainsRegex("[:(]2[:)]"));  // the line
}

TEST_P(PipelineFaults, AProgramIsBuiltByTheRunAndAKernelItHasNotIsNamed) {
  Words x = random_words(100, 1);
  const Words before = x;
  const auto memory = std::as_writable_bytes(std::span(x));
  run(PipelineJob(pipeline_source(), "twice", 100).in_place(memory, 4).count().first());
  EXPECT_EQ(x[7], 2 * before[7] + 7);
  const Error error =
      error_of(PipelineJob(pipeline_source(), "thrice", 100).in_place(memory, 4).count().first());
  EXPECT_EQ(error.code, Code::not_found);
}

// ---- memory that does not suffice ----------------------------------------------------------

TEST_P(PipelineFaults, ChunksShrinkUntilTheDeviceCanHoldThem) {
  constexpr std::uint64_t kSteps = 100'000;
  const auto small = *GetParam().make(Bytes{64} << 10);
  const Words x = random_words(kSteps, 1), y = random_words(kSteps, 2);
  Words z(kSteps);
  const PipelineJob whole = PipelineJob(pipeline_source(), "weigh", kSteps)
                                .input(std::span(x))
                                .input(std::span(y))
                                .output(std::span(z))
                                .count();
  for (const std::uint64_t chunk : {std::uint64_t{0}, kSteps}) {
    const auto report = run_pipeline(*small, whole, in_chunks(chunk));
    ASSERT_TRUE(report) << to_string(report.error());
    EXPECT_EQ(report->shrinks != 0, chunk != 0) << report->explain().text();
    EXPECT_LE(report->plan.device_bytes, Bytes{64} << 10);
    for (std::uint64_t i = 0; i < kSteps; ++i) ASSERT_EQ(z[i], x[i] + 3 * y[i]) << i;
  }
  PipelineOptions unbatched;
  unbatched.mode = PipelineMode::unbatched;
  const auto report = run_pipeline(*small, whole, unbatched);
  ASSERT_FALSE(report);
  EXPECT_TRUE(report.error().code == Code::device_full || report.error().code == Code::too_large);
  EXPECT_THAT(report.error().message, StartsWith("chunk 0 (steps 0 to 99999)"));
  const auto free = small->memory();
  ASSERT_TRUE(free);
  EXPECT_EQ(free->free_bytes, Bytes{64} << 10);
}

TEST_P(PipelineFaults, WhereNotEvenOneStepFitsTheErrorSaysSo) {
  const auto small = *GetParam().make(1000);
  Words x(1000);
  const auto report = run_pipeline(*small, PipelineJob(pipeline_source(), "twice", 2)
                                               .in_place(std::as_writable_bytes(std::span(x)), 2000)
                                               .count()
                                               .first());
  ASSERT_FALSE(report);
  EXPECT_TRUE(report.error().code == Code::device_full || report.error().code == Code::too_large)
      << report.error().message;
  EXPECT_THAT(report.error().message, StartsWith("chunk 0 (step 0)"));
}

TEST_P(PipelineFaults, AHaloThatTheDeviceCannotHoldIsNotMadeOnTheHostFirst) {
  const auto small = *GetParam().make(Bytes{64} << 10);
  Words x(100), z(100);
  const auto report = run_pipeline(*small, PipelineJob(pipeline_source(), "weigh", 100)
                                               .input(std::span(x), 1, {1 << 20, 0, Edge::clamp})
                                               .output(std::span(z)));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::device_full);
  EXPECT_THAT(report.error().message,
              AllOf(StartsWith("chunk 0 (step 0)"), HasSubstr("the halo of argument 0")));
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineFaults, testing::ValuesIn(kDevices),
                         pipeline_device_name);

// ---- kernels that do not end ---------------------------------------------------------------

class StuckKernel : public testing::Test {
 protected:
  static ProgramSource source(const std::shared_ptr<std::atomic<bool>>& open, bool is_deaf) {
    ProgramSource made = pipeline_source();
    made.cpu["stuck"] = [open, is_deaf](const CpuArguments&,
                                        const CpuSlice& slice) -> Result<void> {
      while (!open->load() && (is_deaf || !slice.should_stop())) std::this_thread::yield();
      return {};
    };
    return made;
  }
  PipelineJob job(bool is_deaf) {
    return PipelineJob(source(open_, is_deaf), "stuck", 100)
        .in_place(std::as_writable_bytes(std::span(x_)), 4)
        .first();
  }

  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Device> device_ = *make_cpu_device({.threads = 2});
  Words x_ = Words(100, 7);
};

TEST_F(StuckKernel, IsStoppedWhenItsTimeIsUpAndTheDeviceGoesOn) {
  for (const bool is_deadline : {false, true}) {
    PipelineOptions options = in_chunks(10);
    if (is_deadline)
      options.deadline = Deadline::after(std::chrono::milliseconds(20));
    else
      options.stall_limit = std::chrono::milliseconds(20);
    const auto report = run_pipeline(*device_, job(false), options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::timed_out);
    EXPECT_THAT(report.error().message, StartsWith("chunk 0 (steps 0 to 9)"));
    EXPECT_TRUE(device_->state());
  }
  *open_ = true;
  EXPECT_TRUE(run_pipeline(*device_, job(false), in_chunks(10)));
}

TEST_F(StuckKernel, ThatDoesNotListenCostsTheDeviceAndNothingElse) {
  PipelineOptions options = in_chunks(10);
  options.stall_limit = std::chrono::milliseconds(500);
  const auto report = run_pipeline(*device_, job(true), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::timed_out);
  EXPECT_THAT(report.error().message, StartsWith("chunk 0 (steps 0 to 9)"));
  ASSERT_FALSE(device_->state());
  EXPECT_EQ(device_->state().error().code, Code::device_lost);
  const auto again = run_pipeline(*device_, job(true), options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::device_lost);
  *open_ = true;
}

// What the kernel says is not to be looked for behind what did not happen because of it.
TEST(FailingKernel, SaysSoBeforeAnythingElse) {
  const auto device = *make_cpu_device();
  ProgramSource source;
  source.cpu["odd"] = [](const CpuArguments&, const CpuSlice&) -> Result<void> {
    return fail(Code::busy, "the first word is odd");
  };
  Words x(1000, 1);
  for (const Staging staging : {Staging::automatic, Staging::direct}) {
    PipelineOptions options;
    options.staging = staging;
    const auto bytes = std::as_writable_bytes(std::span(x));
    const auto report =
        run_pipeline(*device, PipelineJob(source, "odd", 1000).in_place(bytes, 4), options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kernel_fault);
    EXPECT_THAT(report.error().message,
                ContainsRegex("^chunk 0 \\(steps? 0[^)]*\\): cpu: launch of 'odd': "
                              "the first word is odd"));
  }
}

// ---- by script -----------------------------------------------------------------------------

// Whatever operation fails however: the error has its code and a chunk, the device's memory is
// back, no thread stays, and the same job then runs; what it computes is right.
TEST(ScriptedPipeline, AnyOperationMayFailAnyWay) {
  constexpr std::uint64_t kSteps = 500;
  const Words before = random_words(kSteps, 3);
  const auto run_with = [&](Device& device, Words& x, PipelineMode mode) {
    PipelineOptions options = in_chunks(100);
    options.mode = mode;
    return run_pipeline(device,
                        PipelineJob(pipeline_source(), "twice", kSteps)
                            .in_place(std::as_writable_bytes(std::span(x)), 4)
                            .count()
                            .first(),
                        options);
  };
  for (const PipelineMode mode : {PipelineMode::overlapped_pageable, PipelineMode::sequential,
                                  PipelineMode::overlapped_pinned})
    for (const Code code : {Code::kernel_fault, Code::device_lost, Code::device_full, Code::system})
      for (std::uint64_t number = 1; number <= 15; ++number) {
        SCOPED_TRACE(
            fmt::format("{}, operation {} fails as {}", to_string(mode), number, to_string(code)));
        const auto script = std::make_shared<FaultScript>();
        const auto device = *make_fake_device(script, Bytes{1} << 20);
        const auto threads_before = threads();
        script->fail_at(number, code);
        Words x = before;
        const auto report = run_with(*device, x, mode);
        if (report) {  // made smaller: nothing of it had come back yet
          ASSERT_EQ(code, Code::device_full);
          EXPECT_EQ(report->shrinks, 1u);
          for (std::uint64_t i = 0; i < kSteps; ++i)
            ASSERT_EQ(x[i], 2 * before[i] + static_cast<std::uint32_t>(i)) << i;
        } else {
          EXPECT_EQ(report.error().code, code);
          EXPECT_THAT(report.error().message, AllOf(StartsWith("chunk "), HasSubstr("scripted")));
        }
        while (threads() > threads_before) std::this_thread::yield();
        if (code == Code::device_lost) continue;
        EXPECT_EQ(device->memory()->free_bytes, Bytes{1} << 20);
        x = before;
        ASSERT_TRUE(run_with(*device, x, mode));
        for (std::uint64_t i = 0; i < kSteps; ++i)
          ASSERT_EQ(x[i], 2 * before[i] + static_cast<std::uint32_t>(i)) << i;
      }
}

TEST(ScriptedPipeline, AFailureWhileItIsMeasuredIsAsAnyOther) {
  constexpr std::uint64_t kSteps = 1'000'000;
  const Words before = random_words(kSteps, 3);
  for (const Code code : {Code::kernel_fault, Code::device_full})
    for (std::uint64_t number = 1; number <= 12; ++number) {
      const auto script = std::make_shared<FaultScript>();
      const auto device = *make_fake_device(script);
      script->fail_at(number, code);
      Words x = before;
      const auto report =
          run_pipeline(*device, PipelineJob(pipeline_source(), "twice", kSteps)
                                    .in_place(std::as_writable_bytes(std::span(x)), 4)
                                    .count()
                                    .first());
      // How many operations there are depends on what is measured.
      if (report && code == Code::kernel_fault) {
        ASSERT_LT(script->executed(), number);
        ASSERT_GT(number, 6u) << "of a chunk to measure and one for the rest each fails";
      }
      if (!report && code == Code::kernel_fault) {
        EXPECT_THAT(report.error().message, StartsWith("chunk "));
      }
      if (!report && code == Code::device_full) {  // what had come back lies on its input
        EXPECT_THAT(report.error().message, HasSubstr("copy-out"));
      }
      if (!report) continue;
      for (std::uint64_t i = 0; i < kSteps; ++i)
        ASSERT_EQ(x[i], static_cast<std::uint32_t>(2 * before[i] + i)) << i;
    }
}

}  // namespace
}  // namespace gantry
