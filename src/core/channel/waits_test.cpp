#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <sstream>

#include "core/base/clock.hpp"
#include "core/base/os/fd.hpp"
#include "core/channel/test_fan_out.hpp"

// What a producer's call waits for: who runs out of time reads it, and what only the caller itself
// can end is no wait but an error.
namespace gantry {
namespace {

using test::pattern;
using test::soon;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class Waits : public test::FanOutFixture {
 protected:
  Waits() { options_.slots = 4; }
  std::string reason_of(const Result<void>& result) {
    EXPECT_FALSE(result);
    if (result) return "";
    EXPECT_EQ(result.error().code, Code::timed_out) << result.error().message;
    return result.error().message;
  }
  std::vector<Loan> lend(int count, Bytes size) {
    std::vector<Loan> loans;
    for (int i = 0; i < count; ++i) loans.push_back(*out().loan(size, soon()));
    return loans;
  }
};

// ---- what ran out of time ------------------------------------------------------------------

TEST_F(Waits, ForConsumersSayHowManyCame) {
  EXPECT_EQ(reason_of(out().wait_for_consumer(Deadline::now())),
            "channel 'frames': no consumer joined in time");
  EXPECT_EQ(reason_of(out().wait_for_consumer(Deadline::now(), 2)),
            "channel 'frames': 0 of 2 consumers joined in time");
  const Consumer one = join();
  EXPECT_EQ(reason_of(out().wait_for_consumer(Deadline::now(), 2)),
            "channel 'frames': 1 of 2 consumers joined in time");
  const Consumer other = join();
  EXPECT_TRUE(out().wait_for_consumer(soon(), 2));
}

TEST_F(Waits, ForASlotSayWhoHasThem) {
  Consumer in = join();
  const auto loans = lend(1, 100);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(out().send(pattern(1000, 1), soon()));
  const std::string reason = reason_of(out().send(pattern(1000, 2), Deadline::now()));
  const std::string wait =
      fmt::format("for a slot: 4 of 4 are in use, 1 by your loans, 3 by consumer {}", ::getpid());
  EXPECT_EQ(reason, "channel 'frames': timed out waiting " + wait);
  EXPECT_THAT(out().explain(1000).waits, ElementsAre(wait)) << "the same words";
}

TEST_F(Waits, ForMemorySayWhatTheBudgetIsUsedFor) {
  options_.pool.budget_bytes = 10 * kMiB;
  Consumer in = join();
  ASSERT_TRUE(out().send(pattern(6 * kMiB, 1), soon()));
  EXPECT_THAT(reason_of(out().send(pattern(6 * kMiB, 2), Deadline::now())),
              HasSubstr("timed out waiting for memory: 6 MiB of the budget of 10 MiB are in use"));
  EXPECT_THAT(out().explain(6 * kMiB).waits,
              ElementsAre(HasSubstr("for memory: 6 MiB of the budget of 10 MiB are in use")));
  EXPECT_THAT(out().explain(3 * kMiB).waits, IsEmpty());
  ASSERT_TRUE(in.receive(soon()));
  EXPECT_THAT(out().explain(6 * kMiB).waits, IsEmpty()) << "it came back";
  EXPECT_TRUE(out().send(pattern(6 * kMiB, 2), soon()));
}

TEST_F(Waits, ForTheEndSayWhatWasNotReceived) {
  EXPECT_EQ(reason_of(out().close(Deadline::now())),
            "channel 'frames': no consumer joined in time to learn that the stream has ended");
  Consumer in = join();
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed) << "who comes late is told";
  out_.reset();
  Consumer next = join();
  ASSERT_TRUE(out().send(pattern(10, 1), soon()));
  ASSERT_TRUE(out().send(pattern(1000, 1), soon()));
  EXPECT_EQ(reason_of(out().close(Deadline::now())),
            "channel 'frames': 2 messages not received in time");
}

TEST_F(Waits, ForAWindowSayWhichChunkWasNotTaken) {
  Consumer in = join();
  EXPECT_THAT(reason_of(out().send(pattern(8 * kMiB, 1),
                                   {.deadline = Deadline::now(), .mode = SendMode::streamed})),
              HasSubstr("a consumer did not take chunk 1 of the streamed message in time"));
}

// ---- what waits long -----------------------------------------------------------------------

/// What this process says on standard error while this lives.
class StandardError {
 public:
  StandardError() : before_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    said_.reset(ends[0]);
    EXPECT_EQ(::dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    ::close(ends[1]);
  }
  ~StandardError() { ::dup2(before_.get(), STDERR_FILENO); }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  /// All lines so far, once there are `count` of them, or `limit` is over.
  std::vector<std::string> lines(std::ptrdiff_t count, Deadline limit = soon()) {
    std::array<char, 4096> part;  // NOLINT: filled by read
    pollfd entry{said_.get(), POLLIN, 0};
    while (std::ranges::count(text_, '\n') < count && ::poll(&entry, 1, poll_timeout_ms(limit)) > 0)
      text_.append(part.data(), static_cast<std::size_t>(
                                    std::max<ssize_t>(0, ::read(said_.get(), part.data(), 4096))));
    std::vector<std::string> found;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) found.push_back(line);
    return found;
  }

 private:
  Fd before_;
  Fd said_;
  std::string text_;
};

class LongWaits : public Waits {
 protected:
  LongWaits() {
    options_.notices = true;
    options_.consumers = 2;
  }
  Producer open(const char* name) { return *make_producer(name, options_); }
  Consumer join(const char* name) {
    return *Consumer::open(name, consumer_options(options_), soon());
  }
  /// Runs on a thread of its own; ready once it has ended well.
  template <class Call>
  static std::future<bool> start(Call call) {
    return std::async(std::launch::async, [call] { return call().has_value(); });
  }
};

// A reader that is slow is nothing out of order, and the second wait of a kind says nothing new.
TEST_F(LongWaits, ForAFirstConsumerAreToldOnce) {
  options_.notices = false;
  Producer silent = open("silent");
  options_.notices = true;
  Producer ended = open("ended");
  Producer full = open("full");
  Producer awaited = open("awaited");
  Producer unread = open("unread");
  const auto small = pattern(10, 1);
  const auto large = pattern(1000, 1);
  Consumer of_unread = join("unread");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(full.send(small) && unread.send(large));
  StandardError errors;
  auto silent_call = start([&] { return silent.wait_for_consumer(soon()); });
  auto ended_call = start([&] { return ended.close(soon()); });
  auto awaited_call = start([&] { return awaited.wait_for_consumer(soon()); });
  auto unread_call = start([&] { return unread.send(large, soon()); });
  auto full_call = start([&] { return full.send(small, soon()); });
  EXPECT_THAT(
      errors.lines(3),
      UnorderedElementsAre(
          "gantry: channel 'ended': waiting for a first consumer to learn that the stream has "
          "ended",
          "gantry: channel 'full': waiting for a first consumer: the backlog of 4 messages is full",
          "gantry: channel 'awaited': waiting for a first consumer"));
  Consumer of_awaited = join("awaited");
  EXPECT_TRUE(awaited_call.get());

  // The second wait of a kind begins before one of another producer.
  auto second_call = start([&] { return awaited.wait_for_consumer(soon(), 2); });
  Producer later = open("later");
  auto later_call = start([&] { return later.wait_for_consumer(soon()); });
  EXPECT_EQ(errors.lines(4).back(), "gantry: channel 'later': waiting for a first consumer");

  Consumer second = join("awaited");
  Consumer of_silent = join("silent");
  Consumer of_later = join("later");
  Consumer of_ended = join("ended");
  Consumer of_full = join("full");
  EXPECT_EQ(of_ended.receive(soon()).error().code, Code::closed);
  ASSERT_TRUE(of_full.receive(soon()) && of_unread.receive(soon()));
  for (auto* call :
       {&silent_call, &ended_call, &full_call, &unread_call, &later_call, &second_call})
    EXPECT_TRUE(call->get());
  EXPECT_EQ(errors.lines(5, Deadline::now()).size(), 4u);
}

// ---- what nobody else can end --------------------------------------------------------------

TEST_F(Waits, LoansThatHoldEverySlotAreAnErrorAtOnce) {
  const Consumer in = join();
  auto loans = lend(4, 100);
  const auto expect_busy = [](const Error& error) {
    EXPECT_EQ(error.code, Code::busy);
    EXPECT_EQ(error.message, "channel 'frames': your loans hold all 4 slots");
    EXPECT_THAT(error.hint, HasSubstr("PayloadOptions::slots"));
  };
  expect_busy(out().loan(100, soon()).error());
  const auto payload = pattern(1000, 1);
  expect_busy(out().send(payload, soon()).error());
  const auto ticket = out().send_async(payload, {.deadline = soon()});
  ASSERT_TRUE(ticket);
  expect_busy(out().wait(*ticket, soon()).error());
  EXPECT_THAT(out().explain(1000).waits,
              ElementsAre("for nothing, but fails: your loans hold all 4 slots"));
  EXPECT_TRUE(out().send(pattern(10, 1), soon())) << "it needs no slot";
  loans.pop_back();
  EXPECT_TRUE(out().loan(100, soon()));
}

TEST_F(Waits, LoansThatHoldTheBytesInFlightAreAnErrorAtOnce) {
  options_.bytes_in_flight = 10 * kMiB;
  const Consumer in = join();
  const auto loans = lend(1, 6 * kMiB);
  const Error error = out().send(pattern(6 * kMiB, 1), soon()).error();
  EXPECT_EQ(error.code, Code::busy);
  EXPECT_THAT(error.message,
              HasSubstr("your loans hold 6 MiB of the 10 MiB that may be in flight"));
}

TEST_F(Waits, LoansThatLeaveNoMemoryAreAnErrorAtOnce) {
  options_.pool.budget_bytes = 10 * kMiB;
  Consumer in = join();
  ASSERT_TRUE(out().send(pattern(kMiB, 1), soon()));  // what comes back of it is not enough
  auto loans = lend(1, 6 * kMiB);
  for (const Error& error :
       {out().loan(6 * kMiB, soon()).error(), out().send(pattern(6 * kMiB, 1), soon()).error()}) {
    EXPECT_EQ(error.code, Code::out_of_memory);
    EXPECT_THAT(error.message,
                HasSubstr("no room for 6 MiB: your loans hold 6 MiB of the budget of 10 MiB"));
    EXPECT_THAT(error.hint, HasSubstr("publish or drop a loan"));
  }
  EXPECT_THAT(out().explain(6 * kMiB).waits, ElementsAre(AllOf(HasSubstr("for nothing, but fails"),
                                                               HasSubstr("your loans hold"))));
  EXPECT_THAT(out().explain(20 * kMiB).waits, ElementsAre(HasSubstr("your loans hold")));
  ASSERT_TRUE(out().publish(std::move(loans.front())));
  EXPECT_THAT(out().explain(20 * kMiB).waits,
              ElementsAre("for nothing, but fails: 20 MiB are more than the budget of 10 MiB"));
  ASSERT_TRUE(in.receive(soon()));
  ASSERT_TRUE(in.receive(soon()));
  EXPECT_TRUE(out().loan(6 * kMiB, soon()));
}

}  // namespace
}  // namespace gantry
