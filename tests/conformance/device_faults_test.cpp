#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "core/base/test_fork.hpp"
#include "device_suite.hpp"

// What goes wrong, and what is left then.
namespace gantry {
namespace {

using testing::HasSubstr;
using DeviceFaults = DeviceConformance;

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST_P(DeviceFaults, AnAbandonedDeviceEndsEverythingAndWaitsForNothing) {
  DeviceBuffer held = zeros(1), there = zeros(10);
  const DeviceEvent busy = hold(held);
  while (can_hold() && gate_->entered == 0) std::this_thread::yield();
  auto back = std::make_shared<Words>(10, 77u);
  const std::weak_ptr<Words> watched = back;
  ok(out_->wait_for(busy));
  const auto bytes = std::as_writable_bytes(std::span(*back));
  const auto waiting = *out_->copy_out(there, 0, bytes, std::move(back));
  device_->abandon("the test wants it");
  for (const DeviceEvent& event : {busy, waiting}) {
    const Error error = error_of(event.wait());
    EXPECT_EQ(error.code, Code::device_lost);
    EXPECT_THAT(error.message, HasSubstr("the test wants it"));
  }
  EXPECT_TRUE(watched.expired());  // what never began holds nothing
  EXPECT_EQ(error_of(device_->state()).code, Code::device_lost);
  EXPECT_EQ(error_of(device_->allocate(8)).code, Code::device_lost);
  EXPECT_EQ(error_of(device_->memory()).code, Code::device_lost);
  EXPECT_EQ(error_of(device_->build(source())).code, Code::device_lost);
  EXPECT_EQ(error_of(device_->open_queue(QueueRole::compute)).code, Code::device_lost);
  EXPECT_EQ(error_of(in_->fill(there, 0, 1, {})).code, Code::device_lost);
  EXPECT_EQ(error_of(in_->record()).code, Code::device_lost);
  EXPECT_EQ(error_of(in_->drain()).code, Code::device_lost);
  held = {};
  there = {};
  out_.reset();
  compute_.reset();
  in_.reset();
  device_.reset();
}

TEST_P(DeviceFaults, OpeningAndClosingLeavesNoThreadAndNoDescriptor) {
  const auto use = [] {
    const auto device = *GetParam().make(0);
    const auto queue = *device->open_queue(QueueRole::compute);
    const DeviceBuffer there = *device->allocate(1 << 16);
    ok(queue->fill(there, 0, 1 << 16, std::byte{1}));
    ok(queue->record());
  };
  use();
  const auto threads = entries_of("/proc/self/task");
  const auto descriptors = entries_of("/proc/self/fd");
  for (int i = 0; i < 30; ++i) use();
  // A thread that was joined is in the list for a moment more.
  while (entries_of("/proc/self/task") > threads) std::this_thread::yield();
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

TEST_P(DeviceFaults, AChildHasNoDevice) {
  if (const char* reason = no_busy_fork()) GTEST_SKIP() << reason;
  const DeviceBuffer there = zeros(10);
  const auto event = *in_->record();
  ok(event.wait());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused = !in_->fill(there, 0, 1, {}) && !in_->drain() && !event.wait() &&
                            !device_->state() && !device_->allocate(8);
    in_->cancel();
    device_->abandon("child");
    in_.reset();
    compute_.reset();
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ok(in_->fill(there, 0, 1, std::byte{1}));
  ok(in_->drain());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceFaults, testing::ValuesIn(kDevices), device_name);

// ---- by script -----------------------------------------------------------------------------

class ScriptedDevice : public testing::Test {
 protected:
  static Code code_of(const Result<void>& result) {
    return result ? Code::closed : result.error().code;  // closed: no failure at all
  }

  std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  std::shared_ptr<Device> device_ = *make_fake_device(script_, Bytes{1} << 20);
  std::unique_ptr<DeviceQueue> in_ = *device_->open_queue(QueueRole::copy_in);
  std::unique_ptr<DeviceQueue> out_ = *device_->open_queue(QueueRole::copy_out);
  DeviceBuffer there_ = *device_->allocate(1000);
};

TEST_F(ScriptedDevice, WhatComesAfterAFailureDoesNotBeginUntilTheQueueIsDrained) {
  script_->fail_at(3, Code::kernel_fault);
  std::vector<DeviceEvent> events;
  for (int i = 0; i < 6; ++i) events.push_back(*in_->fill(there_, 0, 1000, std::byte{1}));
  const auto mark = *in_->record();
  EXPECT_TRUE(events[1].wait());
  EXPECT_EQ(code_of(events[2].wait()), Code::kernel_fault);
  EXPECT_THAT(events[2].wait().error().message,
              testing::AllOf(HasSubstr("fake: fill of 1000 bytes"), HasSubstr("as scripted")));
  for (std::size_t i = 3; i < 6; ++i) {
    EXPECT_EQ(code_of(events[i].wait()), Code::kernel_fault);
    EXPECT_EQ(events[i].wait().error().message,
              events[2].wait().error().message + " (so fill of 1000 bytes was not begun)");
  }
  EXPECT_EQ(code_of(mark.wait()), Code::kernel_fault);
  EXPECT_EQ(script_->executed(), 3u);
  const auto first = in_->drain();
  EXPECT_EQ(code_of(first), Code::kernel_fault);
  EXPECT_EQ(first.error().message, events[2].wait().error().message);  // the first of them
  EXPECT_TRUE(in_->fill(there_, 0, 1000, std::byte{1})->wait());
  EXPECT_TRUE(in_->drain());
}

TEST_F(ScriptedDevice, WhatWaitsForAFailureFailsWithItsCode) {
  script_->fail_at(1, Code::device_full);
  const auto failed = *in_->fill(there_, 0, 1000, std::byte{1});
  ASSERT_TRUE(out_->wait_for(failed));
  std::vector<std::byte> back(1000, std::byte{7});
  const auto waited = *out_->copy_out(there_, 0, back);
  EXPECT_EQ(code_of(waited.wait()), Code::device_full);
  EXPECT_EQ(waited.wait().error().message,
            failed.wait().error().message + " (so copy-out of 1000 bytes was not begun)");
  EXPECT_EQ(back, std::vector<std::byte>(1000, std::byte{7}));
  EXPECT_EQ(code_of(out_->drain()), Code::device_full);
  EXPECT_EQ(code_of(in_->drain()), Code::device_full);
  EXPECT_TRUE(out_->copy_out(there_, 0, back)->wait());
}

TEST_F(ScriptedDevice, AFailureIsNotForgottenByWhoWaitsAfterIt) {
  script_->fail_at(1, Code::system);
  const auto failed = *in_->fill(there_, 0, 1000, std::byte{1});
  EXPECT_FALSE(in_->drain());
  ASSERT_TRUE(out_->wait_for(failed));
  EXPECT_EQ(code_of(out_->record()->wait()), Code::system);
}

TEST_F(ScriptedDevice, ALostDeviceEndsEveryQueueAndItsBuffersCanGo) {
  script_->fail_at(2, Code::device_lost);
  // Refused at once, or ended so: it may be lost before the last is submitted.
  const auto end_of = [](const Result<DeviceEvent>& event) {
    return event ? event->wait() : Result<void>(tl::unexpected(event.error()));
  };
  std::vector<Result<DeviceEvent>> events;
  for (int i = 0; i < 5; ++i) events.push_back(in_->fill(there_, 0, 1000, std::byte{1}));
  EXPECT_TRUE(end_of(events[0]));
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(code_of(end_of(events[i])), Code::device_lost);
  EXPECT_EQ(code_of(end_of(out_->record())), Code::device_lost);
  EXPECT_EQ(script_->executed(), 2u);
  EXPECT_EQ(code_of(device_->state()), Code::device_lost);
  EXPECT_THAT(device_->state().error().message, HasSubstr("as scripted"));
  EXPECT_EQ(code_of(in_->drain()), Code::device_lost);
  EXPECT_EQ(code_of(in_->drain()), Code::device_lost);  // and stays so
  there_ = {};
  in_.reset();
  out_.reset();
  device_.reset();
}

// ---- kernels of the CPU --------------------------------------------------------------------

class CpuFaults : public testing::Test {
 protected:
  Result<void> run(CpuKernel call) {
    const auto program = device_->build({.name = "faults", .cpu = {{"k", std::move(call)}}});
    const auto event = queue_->launch(*program->kernel("k"), {there_}, LaunchRange::linear(1000));
    const auto ended = event->wait();
    EXPECT_EQ(queue_->drain().has_value(), ended.has_value());
    return ended;
  }
  std::shared_ptr<Device> device_ = *make_cpu_device({.threads = 4});
  std::unique_ptr<DeviceQueue> queue_ = *device_->open_queue(QueueRole::compute);
  DeviceBuffer there_ = *device_->allocate(1000);
};

TEST_F(CpuFaults, AnErrorAndAnExceptionEndTheLaunchAsKernelFault) {
  const CpuKernel bad[] = {
      [](const CpuArguments&, const CpuSlice& slice) -> Result<void> {
        if (slice.first == 0) return fail(Code::not_found, "the reason");
        return {};
      },
      [](const CpuArguments&, const CpuSlice&) -> Result<void> {
        throw std::runtime_error("the reason");
      },
  };
  for (const CpuKernel& call : bad) {
    const auto ended = run(call);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::kernel_fault);
    EXPECT_THAT(ended.error().message, HasSubstr("cpu: launch of 'k': "));
    EXPECT_THAT(ended.error().message, HasSubstr("the reason"));
  }
  EXPECT_EQ(run([](const CpuArguments&, const CpuSlice&) -> Result<void> { throw 1; }).error().code,
            Code::kernel_fault);
  EXPECT_TRUE(run([](const CpuArguments&, const CpuSlice&) -> Result<void> { return {}; }));
}

TEST_F(CpuFaults, ArgumentsThatAreNotThereAreAnError) {
  const auto misuse = [&](auto ask) {
    const auto ended = run([ask](const CpuArguments& with, const CpuSlice&) -> Result<void> {
      ask(with);
      return {};
    });
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::kernel_fault);
    EXPECT_THAT(ended.error().message, HasSubstr("argument"));
  };
  misuse([](const CpuArguments& with) { EXPECT_TRUE(with.bytes(1).empty()); });
  misuse([](const CpuArguments& with) { EXPECT_EQ(with.value<int>(0), 0); });
  misuse([](const CpuArguments& with) { EXPECT_EQ(with.value<int>(5), 0); });
}

// Deaf: it looks at nothing. The device's thread is its prisoner, nobody else is.
TEST_F(CpuFaults, AKernelThatNeverLooksHoldsOnlyWhatItUses) {
  auto gate = std::make_shared<Gate>();
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  const auto threads = entries_of("/proc/self/task");
  {
    auto program =
        device_->build({.name = "deaf",
                        .cpu = {{"k",
                                 [gate, held = std::move(held)](const CpuArguments& with,
                                                                const CpuSlice&) -> Result<void> {
                                   ++gate->entered;
                                   while (!gate->is_open.load()) std::this_thread::yield();
                                   with.bytes(0)[0] = std::byte{1};  // its memory is there still
                                   return {};
                                 }}}});
    const auto event = *queue_->launch(*program->kernel("k"), {there_}, LaunchRange::linear(1));
    while (gate->entered == 0) std::this_thread::yield();
    EXPECT_EQ(event.wait(Deadline::now()).error().code, Code::timed_out);
    device_->abandon("it never ends");
    EXPECT_EQ(event.wait().error().code, Code::device_lost);
    there_ = {};
    queue_.reset();
    device_.reset();
  }
  EXPECT_FALSE(watched.expired());
  gate->is_open = true;
  while (!watched.expired()) std::this_thread::yield();  // or the test's time limit says so
  while (entries_of("/proc/self/task") > threads - 4) std::this_thread::yield();
}

TEST_F(CpuFaults, EveryItemIsComputedOnceByWhicheverGroups) {
  for (const std::size_t items : {1u, 7u, 1000u, 1001u})
    for (const std::size_t group : {0u, 1u, 3u, 16u, 5000u}) {
      std::vector<std::atomic<int>> seen(items);
      const auto program = device_->build(
          {.name = "count",
           .cpu = {{"k", [&](const CpuArguments&, const CpuSlice& slice) -> Result<void> {
                      if (group != 0 && slice.first % group != 0)
                        return fail(Code::system, "within a group");
                      for (std::size_t i = slice.first; i < slice.last; ++i) ++seen[i];
                      return {};
                    }}}});
      EXPECT_TRUE(
          queue_->launch(*program->kernel("k"), {}, LaunchRange::linear(items, group))->wait());
      for (const auto& times : seen) ASSERT_EQ(times, 1) << items << " by " << group;
    }
}

}  // namespace
}  // namespace gantry
