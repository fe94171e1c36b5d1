#include "core/channel/producer/send_queue.hpp"

#include <gtest/gtest.h>

namespace gantry {

#ifndef NDEBUG
// Of a queue whose thread was never started: nobody else looks at it.
template <>
struct InvariantBreaker<SendQueue> {
  static void give(SendQueue& queue, std::uint64_t tickets) {
    queue.given_.fetch_add(tickets, std::memory_order_relaxed);
  }
  static void ring(SendQueue& queue) { queue.pushed_.fetch_add(1, std::memory_order_relaxed); }
  static void end(SendQueue& queue) { queue.retire({}); }
  static void fail(SendQueue& queue) { queue.retire(gantry::fail(Code::closed, "by the test")); }
  static void fail_later(SendQueue& queue, std::uint64_t ticket) { queue.failures_[ticket] = {}; }
  static void fill(SendQueue& queue, std::uint64_t ticket) { queue.job_of(ticket).parts.resize(1); }
  static void watch(SendQueue& queue) { queue.watched_.store(true, std::memory_order_relaxed); }
};
#endif

namespace {

constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(50);

// What lies in a cell is whole when the thread finds it, and the cell is not written before the
// thread is done with it: [J] and [E], for ThreadSanitizer. Pushes in bursts, so that the thread
// comes to a job by the count of what was given before it hears that there is news.
TEST(SendQueue, JobsPassFromCellToCellWholeAndInOrder) {
  constexpr std::uint64_t kJobs = 200 * Producer::kMaxUnsent;
  std::uint64_t expected = 0;
  std::uint64_t wrong = 0;
  std::array<std::byte, 1> payload{};
  SendQueue queue(
      [&](SendJob& job) -> Result<void> {
        ++expected;
        if (job.options.user != expected || job.payload.data() != payload.data()) ++wrong;
        return {};
      },
      kSpin, {});
  for (std::uint64_t number = 1; number <= kJobs;) {
    SendJob job{payload, {}, {}};
    job.options.user = number;
    const auto ticket = queue.push(std::move(job));
    if (!ticket) {
      ASSERT_EQ(ticket.error().code, Code::busy) << ticket.error().message;
      ASSERT_TRUE(queue.wait_until_idle(Deadline::never(), -1));
      continue;
    }
    ASSERT_EQ(static_cast<std::uint64_t>(*ticket), number);
    ++number;
  }
  ASSERT_TRUE(queue.wait_until_idle(Deadline::never(), -1));
  EXPECT_EQ(expected, kJobs);
  EXPECT_EQ(wrong, 0u);
}

// Of jobs that carry blocks or messages nothing is kept once they have ended.
TEST(SendQueue, AnEndedJobHoldsNothing) {
  const auto held = std::make_shared<Message>();
  SendQueue queue([](SendJob&) -> Result<void> { return {}; }, kSpin, {});
  std::vector<Draft::Part> parts(1);
  parts[0].forwarded = held;
  const auto ticket = queue.push({{}, std::move(parts), {}});
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(queue.wait(*ticket, Deadline::never(), -1));
  EXPECT_EQ(held.use_count(), 1);
}

#ifndef NDEBUG
class SendQueueDeathTest : public testing::Test {
 protected:
  using Breaker = InvariantBreaker<SendQueue>;
  SendQueueDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  SendQueue queue_{[](SendJob&) -> Result<void> { return {}; }, kSpin, {}};
};

TEST_F(SendQueueDeathTest, ThereIsARingForEachPush) {
  Breaker::give(queue_, 1);
  EXPECT_DEATH(queue_.check_invariants(), "broken contract.*rung");  // I3
}

TEST_F(SendQueueDeathTest, NoTicketEndsBeforeItIsGiven) {
  EXPECT_DEATH(Breaker::end(queue_), "broken contract.*given_");  // I4
}

TEST_F(SendQueueDeathTest, NoMoreIsGivenThanThereAreCells) {
  for (std::size_t i = 0; i <= Producer::kMaxUnsent; ++i) Breaker::ring(queue_);
  Breaker::give(queue_, Producer::kMaxUnsent + 1);
  EXPECT_DEATH(queue_.check_invariants(), "broken contract.*kMaxUnsent");  // I4
}

TEST_F(SendQueueDeathTest, AnEndedJobsCellHasNoParts) {
  for (const std::uint64_t ticket : {2u, 64u}) {
    Breaker::fill(queue_, ticket);
    EXPECT_DEATH(static_cast<void>(queue_.push({})), "broken contract.*parts") << ticket;  // I5
  }
}

TEST_F(SendQueueDeathTest, WhatWasGivenCanBeWaitedFor) {
  Breaker::ring(queue_);
  Breaker::give(queue_, 1);
  EXPECT_DEATH(queue_.check_invariants(), "broken contract.*retired_");  // I6
}

TEST_F(SendQueueDeathTest, WhatWasGivenHasAThreadUntilItEnded) {
  ASSERT_TRUE(queue_.push({}));
  queue_.stop();
  Breaker::ring(queue_);
  Breaker::give(queue_, 1);
  EXPECT_DEATH(queue_.check_invariants(), "broken contract.*joinable");  // I6
}

TEST_F(SendQueueDeathTest, FailuresAreOfTicketsThatEnded) {
  Breaker::give(queue_, 1);
  Breaker::fail_later(queue_, 2);
  EXPECT_DEATH(Breaker::fail(queue_), "broken contract.*failures_");  // I7
}

TEST_F(SendQueueDeathTest, NobodyWatchesBetweenTwoCalls) {
  Breaker::watch(queue_);
  EXPECT_DEATH(static_cast<void>(queue_.push({})), "broken contract.*watched_");  // I8
}
#endif

}  // namespace
}  // namespace gantry
