#include <gmock/gmock.h>

#include "device_suite.hpp"

// Order within a queue, independence between queues, events across them, waiting and cancelling.
namespace gantry {
namespace {

using testing::HasSubstr;
using DeviceQueues = DeviceConformance;

TEST_P(DeviceQueues, OperationsOfOneQueueFollowEachOther) {
  const DeviceBuffer there = buffer(4000);
  Words sent(1000), back(1000);
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::iota(sent.begin(), sent.end(), round);
    ok(compute_->copy_in(there, 0, std::as_bytes(std::span(sent))));
    for (int i = 0; i < 10; ++i)
      ok(compute_->launch(kernel("add"), {there, 1000u, round}, LaunchRange::linear(1000)));
    ok(compute_->copy_out(there, 0, std::as_writable_bytes(std::span(back))));
    ok(compute_->drain());
    for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(back[i], round + i + 10 * round);
  }
}

TEST_P(DeviceQueues, QueuesDoNotWaitForEachOther) {
  const DeviceBuffer held = zeros(1);
  const DeviceEvent busy = hold(held);
  const auto sent = random_bytes(10'000, 1);
  std::vector<std::byte> back(sent.size());
  const DeviceBuffer there = buffer(sent.size());
  const auto landed = *in_->copy_in(there, 0, sent);
  ok(out_->wait_for(landed));
  ok(out_->copy_out(there, 0, back));
  ok(out_->drain());  // where a kernel can be held up, for ever if this waited for it
  EXPECT_EQ(back, sent);
  if (can_hold()) {
    EXPECT_EQ(busy.outcome(), Outcome::pending);
  }
  open_gate();
  ok(busy.wait());
}

TEST_P(DeviceQueues, EventsOrderAcrossQueues) {
  constexpr std::size_t kChunks = 60, kRing = 3, kWords = 5000;
  std::vector<Words> sent(kChunks, Words(kWords)), back(kChunks, Words(kWords));
  std::vector<DeviceBuffer> ring;
  std::vector<DeviceEvent> free(kRing);
  for (std::size_t i = 0; i < kRing; ++i) ring.push_back(buffer(kWords * sizeof(std::uint32_t)));
  for (std::uint32_t k = 0; k < kChunks; ++k) {
    std::iota(sent[k].begin(), sent[k].end(), k * 100'000);
    const DeviceBuffer& slot = ring[k % kRing];
    ok(in_->wait_for(free[k % kRing]));
    const auto landed = *in_->copy_in(slot, 0, std::as_bytes(std::span(sent[k])));
    ok(compute_->wait_for(landed));
    const auto computed = *compute_->launch(
        kernel("add"), {slot, static_cast<std::uint32_t>(kWords), k}, LaunchRange::linear(kWords));
    ok(out_->wait_for(computed));
    free[k % kRing] = *out_->copy_out(slot, 0, std::as_writable_bytes(std::span(back[k])));
  }
  for (const auto& queue : {&in_, &compute_, &out_}) ok((*queue)->drain());
  for (std::uint32_t k = 0; k < kChunks; ++k)
    for (std::size_t i = 0; i < kWords; ++i) ASSERT_EQ(back[k][i], sent[k][i] + k) << k;
}

TEST_P(DeviceQueues, ARecordEndsWithAllBeforeIt) {
  const DeviceBuffer there = zeros(100);
  std::vector<DeviceEvent> events;
  for (int i = 0; i < 30; ++i)
    events.push_back(*compute_->launch(kernel("add"), {there, 100u, 1u}, LaunchRange::linear(100)));
  const auto all = *compute_->record();
  ok(all.wait());
  for (const DeviceEvent& event : events) EXPECT_EQ(event.outcome(), Outcome::done);
  EXPECT_EQ(words_of(there), Words(100, 30));
  EXPECT_EQ(DeviceEvent().outcome(), Outcome::done);
  ok(DeviceEvent().wait());
  ok(compute_->wait_for({}));
}

TEST_P(DeviceQueues, EventsOfOtherDevicesAreRefused) {
  const auto other = *GetParam().make(0);
  const auto queue = *other->open_queue(QueueRole::compute);
  const auto theirs = *queue->record();
  EXPECT_EQ(error_of(compute_->wait_for(theirs)).code, Code::invalid_argument);
}

TEST_P(DeviceQueues, TimesAreOfTheHostsClockAndInOrder) {
  const auto before = Deadline::Clock::now();
  const DeviceBuffer there = buffer(Bytes{1} << 20);
  const auto sent = random_bytes(there.size(), 2);
  std::vector<DeviceEvent> events;
  for (int i = 0; i < 5; ++i) events.push_back(*in_->copy_in(there, 0, sent));
  ok(in_->drain());
  const auto after = Deadline::Clock::now();
  auto last = before;
  for (const DeviceEvent& event : events) {
    const auto timing = event.timing();
    ASSERT_TRUE(timing) << to_string(timing.error());
    EXPECT_LE(before, timing->submitted);
    EXPECT_LE(timing->submitted, timing->began);
    EXPECT_LE(last, timing->began);
    EXPECT_LT(timing->began, timing->ended);
    EXPECT_LE(timing->ended, after);
    last = timing->ended;
  }
  EXPECT_EQ(error_of(DeviceEvent().timing()).code, Code::invalid_argument);
}

TEST_P(DeviceQueues, AKernelThatOutlivesTheDeadlineGoesOnAndCanBeWaitedForAgain) {
  const DeviceBuffer there = zeros(1);
  const DeviceEvent busy = hold(there);
  const Error late = error_of(busy.wait(Deadline::now()));
  EXPECT_EQ(late.code, Code::timed_out);
  EXPECT_FALSE(late.hint.empty());
  EXPECT_EQ(error_of(compute_->drain(Deadline::after(std::chrono::microseconds(1)))).code,
            Code::timed_out);
  EXPECT_EQ(error_of(busy.timing()).code, Code::busy);
  EXPECT_EQ(busy.outcome(), Outcome::pending);
  open_gate();
  ok(busy.wait());
  ok(compute_->drain(Deadline::now()));  // all has ended: nothing to wait for
  EXPECT_NE(words_of(there)[0], 0u);
}

TEST_P(DeviceQueues, CancelEndsWhatHasNotBegunAndTheQueueGoesOn) {
  const DeviceBuffer held = zeros(1), there = zeros(10);
  const DeviceEvent busy = hold(held);
  while (can_hold() && gate_->entered == 0) std::this_thread::yield();
  std::vector<DeviceEvent> events;
  for (int i = 0; i < 40; ++i)
    events.push_back(*compute_->launch(kernel("add"), {there, 10u, 1u}, LaunchRange::linear(10)));
  compute_->cancel();
  static_cast<void>(busy.wait());  // told to stop, or it ends by itself
  ok(compute_->drain());
  std::uint32_t done = 0;
  for (const DeviceEvent& event : events) {
    if (event.outcome() == Outcome::done)
      ++done;
    else
      EXPECT_EQ(error_of(event.wait()).code, Code::interrupted);
  }
  EXPECT_LT(done, 10u);  // no more than had begun
  EXPECT_EQ(words_of(there), Words(10, done));
  if (can_hold()) {
    EXPECT_EQ(error_of(busy.wait()).code, Code::interrupted);
  }
  ok(compute_->launch(kernel("add"), {there, 10u, 5u}, LaunchRange::linear(10)));
  ok(compute_->drain());
  EXPECT_EQ(words_of(there), Words(10, done + 5));
}

TEST_P(DeviceQueues, WhatWaitsForAnotherQueueIsCancelledAtOnce) {
  const DeviceBuffer held = zeros(1), there = zeros(10);
  const DeviceEvent busy = hold(held);
  ok(out_->wait_for(busy));
  Words back(10, 77);
  const auto waiting = *out_->copy_out(there, 0, std::as_writable_bytes(std::span(back)));
  const auto behind = *out_->record();
  out_->cancel();
  EXPECT_EQ(error_of(waiting.wait()).code, Code::interrupted);
  EXPECT_EQ(error_of(behind.wait()).code, Code::interrupted);
  EXPECT_EQ(busy.outcome(), Outcome::pending);
  EXPECT_EQ(back, Words(10, 77));
  ok(out_->drain());
  open_gate();
  ok(busy.wait());
}

TEST_P(DeviceQueues, DestructionWaitsForWhatIsPending) {
  Words sent(100'000, 3), back(100'000);
  {
    DeviceBuffer there = buffer(sent.size() * sizeof(std::uint32_t));
    const auto landed = *in_->copy_in(there, 0, std::as_bytes(std::span(sent)));
    ok(compute_->wait_for(landed));
    for (int i = 0; i < 10; ++i)
      ok(compute_->launch(kernel("add"), {there, 100'000u, 1u}, LaunchRange::linear(100'000)));
    ok(out_->wait_for(*compute_->record()));
    ok(out_->copy_out(there, 0, std::as_writable_bytes(std::span(back))));
  }
  program_ = {};
  device_.reset();  // the queues keep what they need
  in_.reset();
  compute_.reset();
  out_.reset();
  EXPECT_EQ(back, Words(100'000, 13));
}

TEST_P(DeviceQueues, ServeManyThreadsAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t who = 0; who < 6; ++who)
    threads.emplace_back([this, who, &wrong] {
      const Kernel add = kernel("add");
      for (std::uint32_t round = 0; round < 20; ++round) {
        Words words(500 + who, who);
        const auto count = static_cast<std::uint32_t>(words.size());
        const auto bytes = std::as_writable_bytes(std::span(words));
        const DeviceBuffer there = *device_->allocate(bytes.size());
        const auto landed = in_->copy_in(there, 0, bytes);
        if (!landed || !landed->wait()) ++wrong;
        const auto ran = compute_->launch(add, {there, count, round}, LaunchRange::linear(count));
        if (!ran || !ran->wait()) ++wrong;
        const auto back = out_->copy_out(there, 0, bytes);
        if (!back || !back->wait()) ++wrong;
        if (words != Words(500 + who, who + round)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(DeviceQueues, MoreQueuesThanThreeWorkBesideEachOther) {
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  const DeviceBuffer there = zeros(8);
  for (std::size_t i = 0; i < 8; ++i) {
    queues.push_back(*device_->open_queue(QueueRole::compute));
    ok(queues.back()->fill(there, 4 * i, 4, std::byte{1}));
  }
  for (const auto& queue : queues) ok(queue->drain());
  EXPECT_EQ(words_of(there), Words(8, 0x0101'0101));
  EXPECT_EQ(in_->role(), QueueRole::copy_in);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceQueues, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace gantry
