#include "channel/producer/send_queue.hpp"

#include <gtest/gtest.h>

namespace gantry {
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

}  // namespace
}  // namespace gantry
