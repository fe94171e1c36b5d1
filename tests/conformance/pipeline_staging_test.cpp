#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstdio>
#include <thread>

#include "core/base/test_sanitizer.hpp"
#include "pipeline_suite.hpp"

// How memory meets the device, and what explain() says of it.
namespace gantry {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

/// Counts what is registered; refuses, or takes its time for each byte, when told to.
class CountingRegistrar final : public Registrar {
 public:
  explicit CountingRegistrar(bool refuses, std::chrono::nanoseconds of_each_byte = {})
      : Registrar("counting", RegistrarOptions{}), refuses_(refuses), of_each_byte_(of_each_byte) {}

 private:
  Result<Keys> do_register(ByteSpan memory, DeviceAccess) override {
    std::this_thread::sleep_for(of_each_byte_ * memory.size());
    if (refuses_) return fail(Code::out_of_memory, "no more locks");
    return Keys{};
  }
  int do_unregister(const Keys&, ByteSpan) noexcept override { return 0; }
  const bool refuses_;
  const std::chrono::nanoseconds of_each_byte_;
};

/// The CPU, which says of itself that registered memory is quicker.
class PayingDevice final : public Device {
 public:
  explicit PayingDevice(std::shared_ptr<Registrar> registrar)
      : facts_(inner_->facts()), registrar_(std::move(registrar)) {
    facts_.registering_pays = true;
    facts_.unified_memory = false;
    facts_.in_place_alignment = 0;
  }
  const DeviceFacts& facts() const noexcept override { return facts_; }
  Result<DeviceMemory> memory() const override { return inner_->memory(); }
  Result<DeviceBuffer> allocate(Bytes size) override { return inner_->allocate(size); }
  Result<std::unique_ptr<DeviceQueue>> open_queue(QueueRole role) override {
    return inner_->open_queue(role);
  }
  Result<Program> build(const ProgramSource& source) override { return inner_->build(source); }
  Result<std::shared_ptr<Registrar>> registrar() override { return registrar_; }
  Result<void> state() const override { return inner_->state(); }
  void abandon(std::string reason) noexcept override { inner_->abandon(std::move(reason)); }

 private:
  std::shared_ptr<Device> inner_ = *make_cpu_device({.threads = 2});
  DeviceFacts facts_;
  std::shared_ptr<Registrar> registrar_;
};

class PipelineStaging : public testing::Test {
 protected:
  const std::uint64_t kSteps = has_thread_sanitizer() ? 250'000 : 1'000'000;

  PipelineJob job() {
    return PipelineJob(pipeline_source(), "weigh", kSteps)
        .input(std::span(x_))
        .input(PipelineSource::registered(std::as_bytes(std::span(y_))), 4)
        .output(std::span(z_))
        .count();
  }
  PipelineReport run(const PipelineOptions& options) {
    std::ranges::fill(z_, 0u);
    auto report = run_pipeline(device_, job(), options);
    EXPECT_TRUE(report) << to_string(report.error());
    for (std::uint64_t i = 0; i < kSteps; ++i)
      if (z_[i] != x_[i] + 3 * y_[i]) {
        ADD_FAILURE() << i;
        break;
      }
    EXPECT_EQ(registrar_->report().registrations, 0u);  // all are given back
    return report ? *std::move(report) : PipelineReport{};
  }

  const Words x_ = random_words(kSteps, 1), y_ = random_words(kSteps, 2);
  Words z_ = Words(kSteps);
  std::shared_ptr<CountingRegistrar> registrar_ = std::make_shared<CountingRegistrar>(false);
  PayingDevice device_{registrar_};
};

TEST_F(PipelineStaging, TheTimelineTellsWhatTheHostDidForTheRing) {
  PipelineOptions options;
  options.keep_timeline = true;
  options.chunk_steps = kSteps / 4;
  options.staging = Staging::ring;
  const auto report = run(options);
  ASSERT_EQ(report.timeline.size(), 4u);
  for (const ChunkTimes& times : report.timeline) {
    EXPECT_GT(times.stage_in.span().count(), 0);
    EXPECT_LE(times.stage_in.ended, times.copy_in.began);
    EXPECT_LE(times.copy_out.ended, times.stage_out.began);
    EXPECT_GT(times.stage_out.span().count(), 0);
  }
  options.staging = Staging::direct;
  for (const ChunkTimes& times : run(options).timeline) {
    EXPECT_EQ(times.stage_in.span().count(), 0);
    EXPECT_EQ(times.stage_out.span().count(), 0);
  }
}

TEST_F(PipelineStaging, IsByWayOfARegisteredRingWhereThatPays) {
  PipelineOptions options;
  options.staging = Staging::ring;
  const auto report = run(options);
  EXPECT_EQ(report.plan.staging[0], Staging::ring);
  EXPECT_EQ(report.plan.staging[1], Staging::registered);
  EXPECT_EQ(report.plan.staging[2], Staging::ring);
  EXPECT_EQ(report.plan.staging[3], Staging::automatic);  // no array
  EXPECT_GT(report.plan.ring_bytes, 0u);
  EXPECT_GE(registrar_->report().made, 1u);
  EXPECT_LT(registrar_->report().peak_bytes, kSteps * 8);
}

TEST_F(PipelineStaging, IsInPlaceWhenTheMemoryIsUsedOftenEnough) {
  PipelineOptions options;
  options.uses = 1'000'000'000;
  const auto report = run(options);
  EXPECT_EQ(report.plan.staging[0], Staging::in_place);
  EXPECT_EQ(report.plan.staging[2], Staging::in_place);
  EXPECT_THAT(report.plan.reasons, Contains(HasSubstr("registered in place")));
  EXPECT_GE(registrar_->report().peak_bytes, kSteps * 8);
}

// What a ring and registering cost is weighed against what the driver does with plain memory.
TEST_F(PipelineStaging, IsWhateverIsPredictedToTakeLeast) {
  constexpr std::uint64_t kMany = 32'000'000;  // long enough to be weighed, however quick it is
  const Words x = random_words(kMany, 3), y = random_words(kMany, 4);
  Words z(kMany);
  const auto registrar = std::make_shared<CountingRegistrar>(false, std::chrono::nanoseconds(250));
  PayingDevice slow(registrar);
  const auto report = run_pipeline(slow,
                                   PipelineJob(pipeline_source(), "weigh", kMany)
                                       .input(std::span(x))
                                       .input(std::span(y))
                                       .output(std::span(z))
                                       .count(),
                                   {});
  ASSERT_TRUE(report) << to_string(report.error());
  for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(z[i], x[i] + 3 * y[i]) << i;
  double ring = 0, in_place = 0, direct = 0;  // ms; which is the least depends on how slow all is
  bool is_weighed = false;
  for (const std::string& reason : report->plan.reasons)
    is_weighed |= std::sscanf(reason.c_str(),
                              "the caller's memory, of 1 uses: by way of a ring %lf ms, registered "
                              "in place %lf ms, as it is %lf ms",
                              &ring, &in_place, &direct) == 3;
  ASSERT_TRUE(is_weighed) << report->explain().text();
  EXPECT_GT(in_place, kMany * 8 * 250e-6);  // what registering takes
  const bool is_direct = report->plan.staging[0] == Staging::direct;
  EXPECT_EQ(report->plan.staging[0], is_direct ? Staging::direct : Staging::ring);
  EXPECT_EQ(report->plan.staging[2], report->plan.staging[0]);
  EXPECT_TRUE(is_direct ? direct < ring * 1.06 : direct > ring) << report->explain().text();
  EXPECT_EQ(registrar->report().registrations, 0u);
  EXPECT_LT(registrar->report().peak_bytes, kMany * 4);
}

// Of a job that is over before a ring is made there is nothing to weigh. A trial that is held up
// makes it look long, so some are made.
TEST_F(PipelineStaging, IsDirectInAShortJob) {
  const PipelineJob few = PipelineJob(pipeline_source(), "weigh", 50'000)
                              .input(std::span(x_).first(50'000))
                              .input(std::span(y_).first(50'000))
                              .output(std::span(z_).first(50'000))
                              .count();
  bool was_direct = false;
  for (int run = 0; run < 20 && !was_direct; ++run) {
    const auto before = registrar_->report().made;
    const auto report = run_pipeline(device_, few, {});
    ASSERT_TRUE(report) << to_string(report.error());
    for (std::uint64_t i = 0; i < 50'000; ++i) ASSERT_EQ(z_[i], x_[i] + 3 * y_[i]) << i;
    was_direct = report->plan.staging[0] == Staging::direct && registrar_->report().made == before;
  }
  EXPECT_TRUE(was_direct);
}

TEST_F(PipelineStaging, ByHandIsAsAskedFor) {
  PipelineOptions options;
  options.staging = Staging::direct;
  EXPECT_EQ(run(options).plan.staging[0], Staging::direct);
  EXPECT_EQ(registrar_->report().made, 0u);
  options.staging = Staging::in_place;
  EXPECT_EQ(run(options).plan.staging[0], Staging::in_place);
  for (const PipelineMode mode :
       {PipelineMode::sequential_pinned, PipelineMode::overlapped_pinned}) {
    options = {};
    options.mode = mode;
    const auto report = run(options);
    EXPECT_EQ(report.plan.staging[0], Staging::in_place);
    EXPECT_GT(report.registering.count(), 0);
  }
  options.mode = PipelineMode::overlapped_pageable;
  EXPECT_EQ(run(options).plan.staging[0], Staging::direct);
  options = {};
  options.staging = Staging::registered;
  EXPECT_EQ(run_pipeline(device_, job(), options).error().code, Code::invalid_argument);
}

TEST_F(PipelineStaging, MemoryInPlaceOfTheJobsCanBeRegisteredAlready) {
  const auto twice = [&](PipelineSink there) {
    PipelineOptions options;
    options.mode = PipelineMode::overlapped_pinned;
    std::ranges::copy(x_, z_.begin());
    const auto report = run_pipeline(device_,
                                     PipelineJob(pipeline_source(), "twice", kSteps)
                                         .in_place(std::move(there), 4)
                                         .count()
                                         .first(),
                                     options);
    EXPECT_TRUE(report) << to_string(report.error());
    EXPECT_EQ(z_[5], 2 * x_[5] + 5);
    return report ? report->plan.staging.at(0) : Staging::automatic;
  };
  const auto bytes = std::as_writable_bytes(std::span(z_));
  EXPECT_EQ(twice(PipelineSink::registered(bytes)), Staging::registered);
  EXPECT_EQ(registrar_->report().made, 0u);
  EXPECT_EQ(twice(PipelineSink::memory(bytes)), Staging::in_place);
  EXPECT_EQ(registrar_->report().made, 1u);
}

TEST_F(PipelineStaging, ARefusalIsAReasonUnlessItWasAskedFor) {
  registrar_ = std::make_shared<CountingRegistrar>(true);
  PayingDevice refusing(registrar_);
  PipelineOptions options;
  options.uses = 2;  // so that a ring is tried
  const auto report = run_pipeline(refusing, job(), options);
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_THAT(report->explain().text(), HasSubstr("no more locks"));
  options.mode = PipelineMode::overlapped_pinned;
  const auto asked = run_pipeline(refusing, job(), options);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Code::out_of_memory);
  EXPECT_THAT(asked.error().message, HasSubstr("no more locks"));
}

TEST_F(PipelineStaging, MemoryThatIsNotThereIsAnErrorWithTheCopier) {
  const Bytes kSize = kSteps * 4 / 4096 * 4096;
  void* const at =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<std::byte*>(at) + 40'960, 4096, PROT_NONE), 0);
  PipelineOptions options;
  options.staging = Staging::ring;
  options.chunk_steps = 1024;
  options.copier = *make_inline_engine();
  const auto report =
      run_pipeline(device_,
                   PipelineJob(pipeline_source(), "weigh", kSize / 4)
                       .input(PipelineSource::memory({static_cast<std::byte*>(at), kSize}), 4)
                       .input(std::span(y_).first(kSize / 4))
                       .output(std::span(z_).first(kSize / 4))
                       .count(),
                   options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::invalid_argument);
  EXPECT_THAT(report.error().message, StartsWith("chunk 10 (steps 10240 to 11263)"));
  EXPECT_THAT(report.error().message, HasSubstr("cannot be read"));
  ::munmap(at, kSize);
}

TEST_F(PipelineStaging, WhatWasMeasuredIsExplained) {
  const auto report = run({});
  EXPECT_GT(report.plan.compute.ns_per_step + report.plan.copy_in.ns_per_step, 0)
      << report.explain().text();
  EXPECT_GT(report.plan.predicted.count(), 0);
  EXPECT_THAT(report.plan.reasons, Contains(StartsWith("measured:")));
  EXPECT_THAT(report.explain().text(), HasSubstr("chunks of"));
}

}  // namespace
}  // namespace gantry
