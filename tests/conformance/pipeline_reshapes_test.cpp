#include <gmock/gmock.h>
#include <sys/mman.h>

#include "core/base/test_effort.hpp"
#include "pipeline_suite.hpp"
#include "shape_reference.hpp"

// Inputs that the staging copy converts, against a plain loop over the destination's numbers.
namespace gantry {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

Words words_of(const std::vector<std::byte>& bytes) {
  Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 random(test_seed(7));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 100'000) / 7 - 5'000;
  return values;
}

Tensor floats(const std::vector<float>& values) {
  const auto extent = static_cast<std::int64_t>(values.size());
  return Tensor::dense(types::f32, {&extent, 1});
}

std::vector<std::byte> bf16_of(const std::vector<float>& values) {
  Tensor to = floats(values);
  to.type = types::bf16;
  const AskedReshape asked{to, floats(values), {}};
  return PlainReshape(asked, reinterpret_cast<const std::byte*>(values.data())).make();
}

class PipelineReshapes : public PipelineTest {
 protected:
  /// x + 3 * y with `x` as given.
  Words weighed(const PipelineSource& x, const Words& y, const PipelineOptions& options,
                PipelineReport* report = nullptr) const {
    Words z(y.size());
    auto ran =
        run(job("weigh", y.size()).input(x, 4).input(std::span(y)).output(std::span(z)).count(),
            options);
    if (report != nullptr) *report = std::move(ran);
    return z;
  }
  static Words expected(const Words& x, const Words& y) {
    Words z(y.size());
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = x[i] + 3 * y[i];
    return z;
  }
};

TEST_P(PipelineReshapes, GiveTheDeviceWhatAPlainLoopMakes) {
  std::mt19937 random(test_seed(22));
  for (int done = 0; done < 60;) {
    const DrawnReshape drawn(random, done % 20 == 0 ? 200'000 : 4'000);
    const AskedReshape& asked = drawn.asked();
    const auto plan = ReshapePlan::make(asked.to, asked.from, asked.options);
    ASSERT_TRUE(plan) << plan.error().message;
    if (plan->destination_bytes() % 4 != 0) continue;
    SCOPED_TRACE(plan->text());
    const Words x = words_of(PlainReshape(asked, drawn.source().data()).make());
    const Words y = random_words(x.size(), ++done);
    PipelineOptions options = in_chunks(1 + random() % x.size(), 1 + random() % 4);
    if (done % 4 == 0) options.copier = *make_inline_engine();
    if (done % 7 == 0) options = {};
    ASSERT_EQ(weighed(PipelineSource::reshaped(drawn.source(), *plan), y, options), expected(x, y));
  }
}

TEST_P(PipelineReshapes, OnlyTheDestinationsBytesGoIn) {
  const auto values = random_floats(200'000);
  const auto plan = ReshapePlan::make(types::bf16, floats(values));
  ASSERT_TRUE(plan);
  const Words x = words_of(bf16_of(values));
  const Words y = random_words(x.size(), 1);
  const auto source = PipelineSource::reshaped(std::as_bytes(std::span(values)), *plan);
  for (const PipelineMode mode :
       {PipelineMode::automatic, PipelineMode::sequential, PipelineMode::sequential_pinned,
        PipelineMode::overlapped_pageable, PipelineMode::overlapped_pinned,
        PipelineMode::unbatched}) {
    PipelineOptions options;
    options.mode = mode;
    PipelineReport report;
    EXPECT_EQ(weighed(source, y, options, &report), expected(x, y)) << to_string(mode);
    EXPECT_EQ(report.bytes_in, values.size() * 2 + y.size() * 4) << to_string(mode);
    ASSERT_FALSE(report.plan.staging.empty());
    EXPECT_EQ(report.plan.staging[0], Staging::ring);
    EXPECT_THAT(report.plan.reasons,
                Contains(StartsWith("argument 0 is converted by the staging copy: f32 [200000]")));
  }
}

TEST_P(PipelineReshapes, HalosAndBroadcastsAreOfTheDestination) {
  static constexpr std::uint32_t kWidth = 5;
  const auto values = random_floats(2 * kWidth * 700);
  const auto plan = ReshapePlan::make(types::bf16, floats(values));
  ASSERT_TRUE(plan);
  const Words made = words_of(bf16_of(values));
  const auto source = PipelineSource::reshaped(std::as_bytes(std::span(values)), *plan);
  const auto plain = PipelineSource::memory(std::as_bytes(std::span(made)));
  const auto stencil = [&](const PipelineSource& x, Edge edge) {
    Words y(made.size());
    run(job("stencil", 700)
            .input(x, 4 * kWidth, {2, 1, edge})
            .output(std::span(y), kWidth)
            .count()
            .value(kWidth)
            .value(std::uint32_t{2})
            .value(std::uint32_t{1})
            .range([](std::uint64_t steps) { return LaunchRange::linear(steps * kWidth); }),
        in_chunks(37));
    return y;
  };
  for (const Edge edge : {Edge::zero, Edge::clamp, Edge::wrap})
    EXPECT_EQ(stencil(source, edge), stencil(plain, edge));
  const Words x = random_words(100 * made.size(), 3);
  const auto rows = [&](const PipelineSource& table) {
    Words y(200);
    std::vector<std::uint8_t> odd(100);
    const auto width = static_cast<std::uint32_t>(made.size());
    run(job("rows", 100)
            .input(std::span(x), width)
            .broadcast(table)
            .output(std::span(y), 2)
            .output(std::span(odd))
            .count()
            .value(width)
            .value(width));
    return y;
  };
  EXPECT_EQ(rows(source), rows(plain));
}

TEST_P(PipelineReshapes, WhatCannotBeIsRefusedBeforeAnythingIsDone) {
  std::vector<float> values(1000);
  const auto bytes = std::as_bytes(std::span(values));
  const auto plan = ReshapePlan::make(types::bf16, floats(values));
  ASSERT_TRUE(plan);
  Words y(500), z(500);
  const auto refusal = [&](const PipelineSource& x, std::span<std::uint32_t> out) {
    const Error error =
        error_of(job("weigh", 500).input(x, 4).input(std::span(y)).output(out).count());
    EXPECT_EQ(error.code, Code::invalid_argument);
    return error.message;
  };
  EXPECT_THAT(refusal(PipelineSource::reshaped(bytes.first(3999), *plan), z),
              HasSubstr("argument 0: 3999 bytes of memory, and the plan reads 4000"));
  PipelineSource other = PipelineSource::reshaped(bytes, *plan);
  other.size = 1996;
  EXPECT_THAT(refusal(other, z), HasSubstr("no plan for its bytes"));
  EXPECT_THAT(refusal(PipelineSource::reshaped({static_cast<std::byte*>(nullptr), 4000}, *plan), z),
              HasSubstr("memory at address 0"));
  // Into the source itself: what was written would be read again.
  auto* const there = reinterpret_cast<std::uint32_t*>(values.data());
  for (const std::size_t at : {0, 499, 500})
    EXPECT_THAT(refusal(PipelineSource::reshaped(bytes, *plan), {there + at, 500}),
                HasSubstr("overlaps what argument 0 reads"));
}

TEST_P(PipelineReshapes, MemoryThatIsNotThereIsAnErrorWithTheCopier) {
  constexpr Bytes kSize = 100 * 4096;
  void* const at =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<std::byte*>(at) + 20 * 4096, 4096, PROT_NONE), 0);
  const std::int64_t count = kSize / 4;
  const auto plan = ReshapePlan::make(types::bf16, Tensor::dense(types::f32, {&count, 1}));
  ASSERT_TRUE(plan);
  const Words y(kSize / 8);
  Words z(y.size());
  PipelineOptions options = in_chunks(512);  // of a page of f32
  options.copier = *make_inline_engine();
  const Error error =
      error_of(job("weigh", y.size())
                   .input(PipelineSource::reshaped({static_cast<std::byte*>(at), kSize}, *plan), 4)
                   .input(std::span(y))
                   .output(std::span(z))
                   .count(),
               options);
  EXPECT_EQ(error.code, Code::invalid_argument);
  EXPECT_THAT(error.message,
              AllOf(StartsWith("chunk 20 (steps 10240 to 10751)"), HasSubstr("cannot be read")));
  ::munmap(at, kSize);
}

TEST_P(PipelineReshapes, SeveralDevicesConvertAtOnce) {
  const auto values = random_floats(300'000);
  const auto plan = ReshapePlan::make(types::bf16, floats(values));
  ASSERT_TRUE(plan);
  const Words x = words_of(bf16_of(values));
  const Words y = random_words(x.size(), 1);
  Words z(x.size());
  const auto other = make_cpu_device({.threads = 1});
  ASSERT_TRUE(other);
  Device* const devices[] = {device_.get(), other->get()};
  const auto report = run_pipeline(
      devices, PipelineJob(pipeline_source(), "weigh", x.size())
                   .input(PipelineSource::reshaped(std::as_bytes(std::span(values)), *plan), 4)
                   .input(std::span(y))
                   .output(std::span(z))
                   .count());
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_EQ(z, expected(x, y));
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineReshapes, testing::ValuesIn(kDevices),
                         pipeline_device_name);

}  // namespace
}  // namespace gantry
