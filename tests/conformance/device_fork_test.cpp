#include <sys/wait.h>
#include <unistd.h>

#include "core/base/test_fork.hpp"
#include "device_suite.hpp"

// What a child of fork() does with its parent's handles.
namespace gantry {
namespace {

using DeviceForks = DeviceConformance;

// With no queue left that would keep what its threads use.
TEST_P(DeviceForks, AChildDropsEveryHandleAndEnds) {
  if (const char* reason = no_busy_fork()) GTEST_SKIP() << reason;
  DeviceBuffer there = zeros(10);
  ok(compute_->launch(kernel("add"), {there, std::uint32_t{10}, std::uint32_t{1}},
                      LaunchRange::linear(10)));
  ok(compute_->drain());
  in_.reset();
  compute_.reset();
  out_.reset();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // ends it, should it wait for ever
    there = {};
    program_ = {};
    device_.reset();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceForks, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace gantry
