#include <gmock/gmock.h>

#include "pipeline_suite.hpp"

// What OpenCL alone has to care for.
namespace gantry {
namespace {

/// A kernel that holds up all of a driver's threads until it is let go.
class HeldUpOpencl : public testing::Test {
 protected:
  void SetUp() override {
    auto made = open(std::chrono::hours(1));
    if (!made && made.error().code == Code::unsupported) GTEST_SKIP() << to_string(made.error());
    ASSERT_TRUE(made) << to_string(made.error());
    device_ = *std::move(made);
    if (device_->facts().in_place_alignment == 0) GTEST_SKIP() << "the host cannot let it go";
    go_on_ = *device_->over(std::as_writable_bytes(std::span(word_)));
    queue_ = *device_->open_queue(QueueRole::compute);
    const auto program = device_->build(
        {.opencl = {"kernel void hold(volatile global uint* go) { while (go[0] == 0) {} }", {}}});
    ASSERT_TRUE(program) << to_string(program.error());
    held_ = *queue_->launch(*program->kernel("hold"), {go_on_}, LaunchRange::linear(1 << 16, 1));
    while (!is_held_up()) std::this_thread::yield();
  }
  void TearDown() override { let_go(); }

  static Result<std::shared_ptr<Device>> open(std::chrono::nanoseconds patience) {
#if defined(__SANITIZE_THREAD__)
    return fail(Code::unsupported, "ThreadSanitizer does not see into drivers", "other presets");
#endif
    return make_opencl_device({.patience = patience});
  }
  /// All of it: nobody opens it any more.
  static bool is_held_up() { return !open(std::chrono::milliseconds(50)); }
  void let_go() { std::atomic_ref(word_[0]).store(1); }

  std::shared_ptr<Device> device_;
  Words word_ = Words(1024, 0);
  DeviceBuffer go_on_;
  std::unique_ptr<DeviceQueue> queue_;
  DeviceEvent held_;
};

TEST_F(HeldUpOpencl, IsNotWaitedForWhoeverOpensIt) {
  const auto again = open(std::chrono::milliseconds(50));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::timed_out);
  EXPECT_THAT(again.error().message, testing::HasSubstr("does not answer"));
  EXPECT_EQ(held_.outcome(), Outcome::pending);
  let_go();
  EXPECT_TRUE(held_.wait());
  EXPECT_TRUE(open(std::chrono::seconds(10)));
}

// Or else no time limit of a run would count while its buffers are made.
TEST_F(HeldUpOpencl, ItsBuffersAreNotWaitedForWhenItWasGivenUp) {
  std::thread gives_up([this] { device_->abandon("the test wants it"); });
  const auto made = device_->allocate(Bytes{16} << 20);
  gives_up.join();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::device_lost);
}

}  // namespace
}  // namespace gantry
