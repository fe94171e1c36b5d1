#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "core/channel/test_gated_engine.hpp"

// Loops on event_descriptor() that take messages while they land. Property: what lands, and what is
// published behind it, wakes who was told `timed_out`. Method: a sender that is not waited for, and
// a receiver that never waits but in poll(2); a lost wake-up leaves it there.
namespace gantry {
namespace {

using test::consumer_options;
using test::CopyGate;
using test::GatedEngine;
using test::pattern;
using test::same;
using test::soon;

/// In poll(2), where a user's loop sleeps.
void sleep_on(int descriptor) {
  pollfd entry{descriptor, POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "it was not woken";
}

class LandingLoop : public testing::Test {
 protected:
  std::thread sending(const std::vector<std::byte>& payload, int messages, SendMode mode) {
    return std::thread([this, &payload, messages, mode] {
      for (int i = 0; i < messages; ++i)
        ASSERT_TRUE(out_.send(payload, {.deadline = soon(), .mode = mode}));
      ASSERT_TRUE(out_.close(soon()));
    });
  }
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer out_ = *test::make_producer("frames", options_);
  Consumer in_ = *Consumer::open("frames", consumer_options(options_), soon());
  int descriptor_ = *in_.event_descriptor();
};

class LandingLoopInto : public testing::TestWithParam<SendMode> {};

// It is visible, nothing of it has landed; what lands from then on must wake.
TEST_P(LandingLoopInto, IsWokenByWhatLands) {
  const test::ScratchDirectory directory;
  CopyGate gate;
  Producer out =
      *Producer::open("gated", options_in(directory), std::make_shared<GatedEngine>(gate));
  Consumer in = *Consumer::open("gated", consumer_options(options_in(directory)), soon());
  const int descriptor = *in.event_descriptor();
  const auto payload = pattern(8 * kMiB, 1);
  std::vector<std::byte> got(payload.size());
  std::thread sender(
      [&] { EXPECT_TRUE(out.send(payload, {.deadline = soon(), .mode = GetParam()})); });
  auto copied = in.receive_into(got, Deadline::now());
  for (; !copied; copied = in.receive_into(got, Deadline::now())) {
    ASSERT_EQ(copied.error().code, Code::timed_out) << copied.error().message;
    if (in.explain().landing) gate.open();
    ASSERT_NO_FATAL_FAILURE(sleep_on(descriptor));
  }
  EXPECT_TRUE(same(got, payload));
  sender.join();
}

INSTANTIATE_TEST_SUITE_P(Modes, LandingLoopInto,
                         testing::Values(SendMode::pipelined, SendMode::streamed),
                         [](const auto& mode) {
                           return mode.param == SendMode::streamed ? "streamed" : "pipelined";
                         });

// What is in hand is waited for in calls of its own. They take rings in, and those are not theirs
// alone.
TEST_F(LandingLoop, WaitingForOneInHandLosesNoOtherMessage) {
  constexpr int kMessages = 40;
  const auto payload = pattern(8 * kMiB, 2);  // more than a window
  std::thread sender = sending(payload, kMessages, SendMode::streamed);
  int seen = 0;
  for (;;) {
    auto incoming = in_.receive_early(Deadline::now());
    if (!incoming && incoming.error().code == Code::closed) break;
    if (!incoming) {
      ASSERT_EQ(incoming.error().code, Code::timed_out) << incoming.error().message;
      ASSERT_NO_FATAL_FAILURE(sleep_on(descriptor_));
      continue;
    }
    ++seen;
    const auto other = in_.receive_early(Deadline::now());  // promised from here on
    ASSERT_FALSE(other) << "there is none before this one has passed";
    for (auto chunk = incoming->next(soon()); chunk && !chunk->empty();
         chunk = incoming->next(soon()))
      continue;
    ASSERT_NO_FATAL_FAILURE(sleep_on(descriptor_));
  }
  EXPECT_EQ(seen, kMessages);
  sender.join();
}

}  // namespace
}  // namespace gantry
