#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <gantry/device.hpp>
#include <gantry/runtime.hpp>

namespace gantry {
namespace {

using ::testing::HasSubstr;

TEST(Devices, AreListedWithTheirNamesOrWhatToDo) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  const auto all = runtime->devices();
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[0].name, "cpu");
  EXPECT_TRUE(all[0].usable) << all[0].why;
  for (const EngineStatus& status : all) {
    EXPECT_FALSE(status.why.empty()) << status.name;
    EXPECT_EQ(status.usable, status.mend.empty()) << status.name;
    const auto device = runtime->open_device(status.name);
    ASSERT_EQ(device.has_value(), status.usable) << status.name;
    if (!device) continue;
    EXPECT_EQ((*device)->facts().name, status.name);
    EXPECT_EQ((*device)->facts().about, status.why);
  }
}

TEST(Devices, WhatNobodyKnowsIsRefusedWithTheNames) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  for (const char* name : {"", "gpu", "cpu:0", "opencl:", "opencl:x", "opencl:1x", "opencl:-1"}) {
    const auto device = runtime->open_device(name);
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().code, Code::not_found) << name;
    EXPECT_THAT(device.error().message, HasSubstr(name));
    EXPECT_THAT(device.error().hint, HasSubstr("cpu, opencl or opencl:NUMBER"));
  }
}

TEST(Devices, ADeviceThatIsNotThereIsNamed) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  const auto device = runtime->open_device("opencl:999");
  ASSERT_FALSE(device);
  EXPECT_FALSE(device.error().hint.empty());
  EXPECT_THAT(device.error().message, HasSubstr("opencl"));
}

}  // namespace
}  // namespace gantry
