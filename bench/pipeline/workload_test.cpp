// Whether a wrong result is found, and whether the kernels are right when they are cut as for a
// GPU.

#include <gtest/gtest.h>

#include <algorithm>

#include <gantry/runtime.hpp>

#include "cases.hpp"
#include "turns.hpp"

namespace gantry::bench {

void PrintTo(const CaseKind& kind, std::ostream* out) {
  *out << kind.name;
}

namespace {

constexpr std::uint64_t kSteps = 1003;

class Workloads : public ::testing::TestWithParam<CaseKind> {
 protected:
  /// A run of the case on `device`, its kernel cut so.
  Result<PipelineReport> run(const std::string& device, const Cut& cut, Workload& workload) const {
    const auto opened = runtime_.open_device(device);
    if (!opened) return tl::unexpected(opened.error());
    const auto program = (*opened)->build(GetParam().program(cut));
    if (!program) return tl::unexpected(program.error());
    const auto kernel = program->kernel(GetParam().kernel);
    if (!kernel) return tl::unexpected(kernel.error());
    PipelineOptions options;
    options.mode = PipelineMode::overlapped_pageable;
    options.chunk_steps = 100;
    options.keep_timeline = true;
    workload.prepare();
    return run_pipeline(**opened, workload.job(*kernel, {cut, false}), options);
  }
  static Cut host_cut() { return {.group = 64, .reducing = 1, .groups = 8, .is_contiguous = true}; }

  const Runtime runtime_ = Runtime::create().value();
};

TEST_P(Workloads, WhatWasNotComputedIsWrong) {
  const auto workload = GetParam().make(kSteps);
  workload->prepare();
  const auto checked = workload->check({});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::peer_misbehaved);
}

TEST_P(Workloads, AreRightOnTheCpuAndTheEndsOfChunksAreLookedAt) {
  const auto workload = GetParam().make(kSteps);
  const auto report = run("cpu", host_cut(), *workload);
  ASSERT_TRUE(report) << to_string(report.error());
  ASSERT_EQ(report->timeline.size(), 11);
  EXPECT_TRUE(workload->check(report->timeline));
}

TEST_P(Workloads, OneWrongByteAtTheEndOfAChunkIsFound) {
  if (GetParam().is_of_files) GTEST_SKIP() << "its results are in a file";
  const auto workload = GetParam().make(kSteps);
  if (dynamic_cast<const Reduction*>(workload.get()) != nullptr) return;  // all of it is compared
  const auto report = run("cpu", host_cut(), *workload);
  ASSERT_TRUE(report) << to_string(report.error());
  const ByteSpan results = workload->arrays().back().bytes();
  const Bytes step_bytes = results.size() / kSteps;
  results[500 * step_bytes - 1] ^= std::byte{0x40};  // chunk 4 ends with step 499
  EXPECT_FALSE(workload->check(report->timeline));
}

// With groups that share steps, as on a GPU; the device is the host's nevertheless.
TEST_P(Workloads, AreRightWhenCutAsForAGpu) {
  const Cut cut{.group = 64, .reducing = 64, .groups = 5, .is_contiguous = false};
  const auto workload = GetParam().make(kSteps);
  const auto report = run("opencl", cut, *workload);
  if (!report && report.error().code == Code::unsupported)
    GTEST_SKIP() << to_string(report.error());
  ASSERT_TRUE(report) << to_string(report.error());
  const auto checked = workload->check(report->timeline);
  EXPECT_TRUE(checked) << to_string(checked.error());
}

std::string name_of(const ::testing::TestParamInfo<CaseKind>& kind) {
  std::string name(kind.param.name);
  std::ranges::replace(name, '-', '_');
  return name;
}
// What the subject computes is what is checked: a kernel that does nothing ends the run.
TEST(BenchCases, AWrongResultIsAnError) {
  CaseKind kind = vector_add_case();
  kind.program = [](const Cut& cut) {
    return program_of(
        "vector_add", "", [](const CpuArguments&, const CpuSlice&) -> Result<void> { return {}; },
        cut);
  };
  const Runtime runtime = Runtime::create().value();
  const auto device = runtime.open_device("cpu").value();
  const Tool tool{"cpu", device, cut_for(device->facts())};
  BenchCase bench_case(kind, 1 << 16);
  ASSERT_TRUE(bench_case.build_for(tool));
  const auto turn = bench_case.take_turn({"cpu/automatic", &tool, {}});
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().code, Code::peer_misbehaved);
  EXPECT_NE(turn.error().message.find("wrong result"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Workloads, ::testing::ValuesIn(case_kinds()), name_of);

}  // namespace
}  // namespace gantry::bench
