#include <gmock/gmock.h>

#include "device_suite.hpp"

// What is built, what is launched with which arguments over which range, and what a compiler says.
namespace gantry {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using DeviceKernels = DeviceConformance;

TEST_P(DeviceKernels, ComputeEveryItemOfAnyRange) {
  for (const std::uint32_t count : {1u, 2u, 63u, 64u, 1001u, 100'003u})
    for (const std::size_t group : {0u, 1u, 64u}) {
      std::vector<float> x(count), y(count, 2.0f);
      std::iota(x.begin(), x.end(), 0.0f);
      const DeviceBuffer on_x = buffer(4 * count), on_y = buffer(4 * count);
      ok(compute_->copy_in(on_x, 0, std::as_bytes(std::span(x))));
      ok(compute_->copy_in(on_y, 0, std::as_bytes(std::span(y))));
      ok(compute_->launch(kernel("axpy"), {on_y, on_x, 0.5f, count},
                          LaunchRange::linear(count, group)));
      ok(compute_->copy_out(on_y, 0, std::as_writable_bytes(std::span(y))));
      ok(compute_->drain());
      for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(y[i], 0.5f * x[i] + 2.0f) << count;
    }
}

TEST_P(DeviceKernels, TwoDimensionsCountTheFirstQuickest) {
  const std::uint32_t width = 37, height = 11;
  const DeviceBuffer there = zeros(width * height);
  for (const LaunchRange& range :
       {LaunchRange{{width, height, 1}, {}}, LaunchRange{{width, height, 1}, {1, 1, 1}}}) {
    ok(compute_->launch(kernel("place"), {there, width, height}, range));
    ok(compute_->drain());
    const Words words = words_of(there);
    for (std::uint32_t i = 0; i < words.size(); ++i)
      ASSERT_EQ(words[i], i / width * 1000 + i % width);
  }
}

TEST_P(DeviceKernels, GroupsHaveLocalMemory) {
  const std::uint32_t count = 1000, group = 32;
  const std::uint32_t groups = (count + group - 1) / group;
  Words numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1u);
  const DeviceBuffer there = buffer(4 * count), sums = zeros(groups);
  ok(compute_->copy_in(there, 0, std::as_bytes(std::span(numbers))));
  ok(compute_->launch(kernel("sums"), {there, sums, KernelArgument::local(4 * group), count},
                      LaunchRange::linear(count, group)));
  ok(compute_->drain());
  const Words found = words_of(sums);
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0u), count * (count + 1) / 2);
  EXPECT_EQ(found[0], group * (group + 1) / 2);
}

TEST_P(DeviceKernels, ARangeOfNothingRunsNothing) {
  const DeviceBuffer there = zeros(4);
  for (const LaunchRange& range : {LaunchRange::linear(0), LaunchRange{{4, 0, 1}, {}}}) {
    const auto event = compute_->launch(kernel("add"), {there, 4u, 1u}, range);
    ASSERT_TRUE(event);
    ok(event->wait());
  }
  EXPECT_EQ(words_of(there), Words(4));
}

TEST_P(DeviceKernels, AnUnknownKernelIsRefusedWithThoseThereAre) {
  const Error error = error_of(program_.kernel("adds"));
  EXPECT_EQ(error.code, Code::not_found);
  EXPECT_THAT(error.message, HasSubstr("'adds'"));
  EXPECT_THAT(error.hint, AllOf(HasSubstr("add"), HasSubstr("hold")));
  EXPECT_EQ(error_of(Program().kernel("add")).code, Code::invalid_argument);
}

TEST_P(DeviceKernels, ASourceInNoneOfItsLanguagesIsUnsupported) {
  const Error error = error_of(device_->build({.name = "nothing"}));
  EXPECT_EQ(error.code, Code::unsupported);
  EXPECT_THAT(error.message, HasSubstr("'nothing'"));
  EXPECT_FALSE(error.hint.empty());
}

TEST_P(DeviceKernels, ACompilersLogIsInTheErrorWithItsLines) {
  if (device_->facts().kind == DeviceKind::cpu) GTEST_SKIP() << "compiles nothing";
  const Error error = error_of(
      device_->build({.name = "broken",
                      .opencl = {"kernel void k(global int* x) {\n  x[0] = 1;\n  x[1] = y;\n}", {}},
                      .cuda = {"extern \"C\" __global__ void k(int* x) {\n  x[0] = 1;\n"
                               "  x[1] = y;  // stub: error identifier \"y\" is undefined\n}",
                               {}}}));
  EXPECT_EQ(error.code, Code::build_failed);
  EXPECT_THAT(error.message, HasSubstr("'broken'"));
  EXPECT_THAT(error.message, AnyOf(HasSubstr(":3:"), HasSubstr("line 3"), HasSubstr("(3)")));
  EXPECT_THAT(error.message, HasSubstr("y"));
}

TEST_P(DeviceKernels, OptionsReachTheCompiler) {
  if (device_->facts().kind == DeviceKind::cpu) GTEST_SKIP() << "compiles nothing";
  const char* text = "kernel void k(global uint* x) { x[0] = VALUE; }";
  const char* cuda =
      "extern \"C\" __global__ void k(unsigned* x) { x[0] = VALUE; }  // stub: needs VALUE";
  const auto build = [&](const char* options) {
    return device_->build({.name = "given", .opencl = {text, options}, .cuda = {cuda, options}});
  };
  EXPECT_EQ(error_of(build("")).code, Code::build_failed);
  const auto program = build("-DVALUE=42");
  ASSERT_TRUE(program) << to_string(program.error());
  const DeviceBuffer there = zeros(1);
  ok(compute_->launch(*program->kernel("k"), {there}, LaunchRange::linear(1)));
  ok(compute_->drain());
  EXPECT_EQ(words_of(there), Words{42});
}

// At once where the device can tell, else as the launch's end.
TEST_P(DeviceKernels, WrongArgumentsAreAnErrorAndTheDeviceGoesOn) {
  const DeviceBuffer there = zeros(10);
  const auto outcome = [&](std::initializer_list<KernelArgument> arguments) {
    const auto event = compute_->launch(kernel("add"), arguments, LaunchRange::linear(10));
    const Result<void> ended = event ? event->wait() : tl::unexpected(event.error());
    static_cast<void>(compute_->drain());
    EXPECT_THAT(error_of(ended).message, HasSubstr("'add'"));
    return error_of(ended).code;
  };
  const auto wrong = AnyOf(Code::invalid_argument, Code::kernel_fault);
  EXPECT_THAT(outcome({there, 10u}), wrong);
  EXPECT_THAT(outcome({there, 10.0, 1u}), wrong);  // 8 bytes for 4
  ok(compute_->launch(kernel("add"), {there, 10u, 4u}, LaunchRange::linear(10)));
  ok(compute_->drain());
  EXPECT_EQ(words_of(there), Words(10, 4));
}

TEST_P(DeviceKernels, OneKernelServesSeveralQueuesWithArgumentsOfEach) {
  const Kernel add = kernel("add");
  const auto second = *device_->open_queue(QueueRole::compute);
  const DeviceBuffer one = zeros(1000), other = zeros(1000);
  std::thread beside([&] {
    for (int i = 0; i < 100; ++i)
      ok(second->launch(add, {other, 1000u, 2u}, LaunchRange::linear(1000)));
  });
  for (int i = 0; i < 100; ++i)
    ok(compute_->launch(add, {one, 1000u, 1u}, LaunchRange::linear(1000)));
  beside.join();
  ok(compute_->drain());
  ok(second->drain());
  EXPECT_EQ(words_of(one), Words(1000, 100));
  EXPECT_EQ(words_of(other), Words(1000, 200));
}

TEST_P(DeviceKernels, OneOfAnotherDeviceIsRefused) {
  const auto other = *GetParam().make(0);
  const auto theirs = *other->build(source());
  const DeviceBuffer there = zeros(10);
  EXPECT_EQ(error_of(compute_->launch(*theirs.kernel("add"), {there, 10u, 1u}, {})).code,
            Code::invalid_argument);
}

TEST_P(DeviceKernels, TooLargeAGroupIsRefused) {
  const std::size_t most = device_->facts().max_group;
  if (most == std::numeric_limits<std::size_t>::max()) GTEST_SKIP() << "any group";
  const DeviceBuffer there = zeros(10);
  const auto event =
      compute_->launch(kernel("add"), {there, 10u, 1u}, LaunchRange::linear(2 * most, 2 * most));
  EXPECT_EQ(error_of(event).code, Code::invalid_argument);
}

// Refused when it is given to the driver, not before: a group that the kernel was not made for.
TEST_P(DeviceKernels, WhatFollowsARefusedLaunchDoesNotBegin) {
  if (device_->facts().kind != DeviceKind::opencl) GTEST_SKIP() << "others know it before";
  const auto picky = *device_->build(
      {.name = "picky",
       .opencl = {"kernel __attribute__((reqd_work_group_size(4, 1, 1))) void k(global uint* x) {"
                  "x[0] = 3; }",
                  {}}});
  const DeviceBuffer x = zeros(16), other = zeros(16);
  const auto before = hold(other);
  const auto refused = *compute_->launch(*picky.kernel("k"), {x}, LaunchRange::linear(16, 8));
  const auto behind = *compute_->fill(x, 0, 64, std::byte{9});
  ok(before.wait());
  const Error error = error_of(refused.wait());
  EXPECT_THAT(error.message, HasSubstr("CL_INVALID_WORK_GROUP_SIZE"));
  EXPECT_EQ(error_of(behind.wait()).code, error.code);
  EXPECT_THAT(error_of(behind.wait()).message, HasSubstr("not begun"));
  EXPECT_EQ(words_of(x), Words(16, 0u));
  EXPECT_FALSE(compute_->drain());
  ok(compute_->fill(x, 0, 64, std::byte{}));
  ok(compute_->drain());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceKernels, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace gantry
