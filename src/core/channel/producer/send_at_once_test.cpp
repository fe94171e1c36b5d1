#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/base/os/fd.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/channel/producer/mode_choice.hpp"
#include "core/channel/test_gated_engine.hpp"
#include "core/channel/test_support.hpp"

// What send_async() copies itself, and what it hands over.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class SendAtOnce : public testing::Test {
 protected:
  static std::size_t threads_here() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
  }
  static Bytes quick() { return quick_up_to(usable_cpus() < 3); }
  Producer producer() { return *make_producer("frames", options_); }
  Consumer consumer() { return *Consumer::open("frames", consumer_options(options_), soon()); }
  static void expect(Consumer& in, ConstByteSpan payload) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), payload)) << payload.size();
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

TEST_F(SendAtOnce, ASmallMessageIsSentWhenTheCallReturns) {
  Producer out = producer();
  Consumer in = consumer();
  std::uint64_t last = 0;
  const std::size_t threads = threads_here();
  for (const Bytes size : {Bytes{0}, Bytes{1}, Bytes{64}, Bytes{65}, Bytes{4096}, quick()}) {
    auto payload = pattern(size, size);
    const auto ticket = out.send_async(payload);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(out.outcome(*ticket), Outcome::done) << size;
    EXPECT_TRUE(out.wait(*ticket, Deadline::now()));
    EXPECT_GT(static_cast<std::uint64_t>(*ticket),
              std::exchange(last, static_cast<std::uint64_t>(*ticket)));
    const auto sent = payload;
    std::ranges::fill(payload, std::byte{0});  // it is ours again
    expect(in, sent);
  }
  EXPECT_EQ(threads_here(), threads) << "there is nothing for another thread to do";
}

// The engine stands still: only who hands the copy over comes back.
TEST_F(SendAtOnce, OneByteMoreIsHandedOver) {
  test::CopyGate gate;
  Producer out = *Producer::open("frames", options_, std::make_shared<test::GatedEngine>(gate));
  Consumer in = consumer();
  const auto payload = pattern(quick() + 1, 1);
  const auto behind = pattern(10, 2);
  const auto large = out.send_async(payload, {.deadline = soon()});
  const auto small = out.send_async(behind, {.deadline = soon()});
  const auto draft = out.send_async(Draft().copy(behind).copy(behind), {.deadline = soon()});
  ASSERT_TRUE(large && small && draft);
  EXPECT_EQ(out.outcome(*large), Outcome::pending);
  EXPECT_EQ(out.outcome(*small), Outcome::pending) << "it must not overtake";
  gate.open();
  expect(in, payload);
  expect(in, behind);
  EXPECT_EQ(in.receive(soon())->segments(), 2u);
  EXPECT_TRUE(out.wait(*draft, soon()));
  EXPECT_EQ(out.outcome(*large), Outcome::done);
}

TEST_F(SendAtOnce, WithoutACreditItReturnsAllTheSame) {
  options_.slots = 2;
  Producer out = producer();
  Consumer in = consumer();
  std::vector<std::vector<std::byte>> payloads;
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < 6; ++i) payloads.push_back(pattern(i % 2 == 0 ? 5000 : 30, i));
  for (const auto& payload : payloads)
    tickets.push_back(*out.send_async(payload, {.deadline = soon()}));
  EXPECT_EQ(out.outcome(tickets.front()), Outcome::done);
  EXPECT_EQ(out.outcome(tickets.back()), Outcome::pending);
  for (const auto& payload : payloads) expect(in, payload);
  for (const Ticket ticket : tickets) EXPECT_TRUE(out.wait(ticket, soon()));
  const auto next = pattern(5000, 9);
  EXPECT_EQ(out.outcome(*out.send_async(next)), Outcome::done) << "nothing is before it any more";
  expect(in, next);
}

TEST_F(SendAtOnce, WithoutMemoryItReturnsAllTheSame) {
  options_.pool.budget_bytes = 4 * kMiB;
  Producer out = producer();
  Consumer in = consumer();
  std::optional<Loan> loan(*out.loan(3 * kMiB));
  ASSERT_TRUE(out.publish(std::move(*loan)));
  auto held = in.receive(soon());
  ASSERT_TRUE(held);
  const auto payload = pattern(quick(), 1);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) tickets.push_back(*out.send_async(payload, {.deadline = soon()}));
  *held = Message();
  for (int i = 0; i < 5; ++i) expect(in, payload);
  for (const Ticket ticket : tickets) EXPECT_TRUE(out.wait(ticket, soon()));
}

// Half a second is the time that a consumer in no call gets to unmap what was dropped: the call
// does not wait for that, nor does it go over the budget instead.
TEST_F(SendAtOnce, MemoryThatAConsumerStillMapsIsWaitedForElsewhere) {
  constexpr Bytes kBudget = Bytes{64} << 10;
  options_.pool.budget_bytes = kBudget;
  options_.pool.slab_bytes = kBudget / 8;
  options_.slots = 2;
  Producer out = producer();
  Consumer in = consumer();
  const auto payload = pattern(kBudget, 1);
  const auto send = [&](Bytes size) {
    return *out.send_async(ConstByteSpan(payload).first(size), {.deadline = soon()});
  };
  ASSERT_TRUE(out.wait(send(kBudget / 4), soon()));
  expect(in, ConstByteSpan(payload).first(kBudget / 4));
  ASSERT_TRUE(out.wait(send(kBudget / 2), soon()));
  expect(in, ConstByteSpan(payload).first(kBudget / 2));
  const Ticket ticket = send(kBudget * 3 / 4);
  EXPECT_EQ(out.outcome(ticket), Outcome::pending) << "the consumer maps what would have to go";
  ASSERT_TRUE(out.wait(ticket, soon()));
  expect(in, ConstByteSpan(payload).first(kBudget * 3 / 4));
}

// A message without a ticket would be sent once more by whoever tries again.
TEST_F(SendAtOnce, WithoutADescriptorForItsTicketNothingIsSent) {
  Producer out = producer();
  Consumer in = consumer();
  const auto payload = pattern(100, 1);
  ASSERT_TRUE(out.send(payload, soon()));  // there is memory for it
  expect(in, payload);
  const Fd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest.get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = out.send_async(payload);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(refused);
  EXPECT_TRUE(out.send_async(payload));
  expect(in, payload);
  EXPECT_FALSE(in.receive(Deadline::now())) << "one was sent";
}

TEST_F(SendAtOnce, WhatFailsIsTheTicketsOutcome) {
  Producer out = producer();
  std::optional<Consumer> in(consumer());
  const Fd file(::open(directory_.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
  auto* const gone =
      static_cast<std::byte*>(::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, file.get(), 0));
  ASSERT_NE(gone, MAP_FAILED);
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  const auto unreadable = out.send_async(ConstByteSpan(gone, 8192));
  ASSERT_TRUE(unreadable);
  EXPECT_EQ(out.outcome(*unreadable), Outcome::failed);
  EXPECT_EQ(out.wait(*unreadable, soon()).error().code, Code::invalid_argument);
  const auto payload = pattern(5000, 1);
  const auto next = out.send_async(payload);
  EXPECT_EQ(out.outcome(*next), Outcome::done) << "no slot was lost";
  expect(*in, payload);
  in.reset();
  while (!out.explain(1).status.consumers.empty()) std::this_thread::yield();
  const auto to_nobody = out.send_async(payload, {.deadline = soon()});
  ASSERT_TRUE(to_nobody);
  EXPECT_EQ(out.wait(*to_nobody, soon()).error().code, Code::peer_gone);
  EXPECT_EQ(out.wait(*unreadable, soon()).error().code, Code::invalid_argument) << "as before";
  ::munmap(gone, 8192);
}

TEST_F(SendAtOnce, TheDescriptorTellsOfIt) {
  Producer out = producer();
  Consumer in = consumer();
  const auto payload = pattern(100, 1);
  ASSERT_TRUE(out.send_async(payload));
  const int descriptor = *out.sent_descriptor();
  const auto is_readable = [&] {
    pollfd entry{descriptor, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  EXPECT_TRUE(is_readable());
  out.note_woken();
  EXPECT_FALSE(is_readable());
  ASSERT_TRUE(out.send_async(payload));
  EXPECT_TRUE(is_readable());
  out.note_woken();
  ASSERT_TRUE(out.send(payload));
  EXPECT_FALSE(is_readable()) << "that has no ticket";
}

// Else a loop that asks whenever the descriptor is readable would never sleep.
TEST_F(SendAtOnce, ToAskForATicketWakesNobody) {
  options_.slots = 1;
  Producer out = producer();
  Consumer in = consumer();
  const auto payload = pattern(5000, 1);
  ASSERT_TRUE(out.send(payload, {.deadline = soon()}));
  const auto waits = out.send_async(payload, {.deadline = soon()});
  ASSERT_TRUE(waits);
  const int descriptor = *out.sent_descriptor();
  const auto is_readable = [&](int milliseconds) {
    pollfd entry{descriptor, POLLIN, 0};
    return ::poll(&entry, 1, milliseconds) == 1;
  };
  out.note_woken();
  EXPECT_EQ(out.wait(*waits, Deadline::now()).error().code, Code::timed_out);
  EXPECT_FALSE(is_readable(0));
  expect(in, payload);
  EXPECT_TRUE(is_readable(10'000)) << "it has ended";
  EXPECT_TRUE(out.wait(*waits, soon()));
  expect(in, payload);
}

TEST_F(SendAtOnce, DraftsToo) {
  Producer out = producer();
  Consumer in = consumer();
  const auto first = pattern(3000, 1), second = pattern(70, 2);
  const auto copies = out.send_async(Draft().copy(first).copy(second));
  EXPECT_EQ(out.outcome(*copies), Outcome::done);
  auto block = *out.pool().allocate(3000);
  std::memcpy(block.bytes().data(), first.data(), 3000);
  const auto moved = out.send_async(Draft().move(std::move(block)).copy(second));
  ASSERT_TRUE(moved);
  for (int i = 0; i < 2; ++i) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message);
    EXPECT_TRUE(same(message->segment(0).bytes, first));
    EXPECT_TRUE(same(message->segment(1).bytes, second));
  }
  EXPECT_TRUE(out.wait(*moved, soon()));
}

/// Twelve messages, of which none can be sent before a consumer joins: eight have a slot each.
class Waiting : public SendAtOnce {
 protected:
  Waiting() {
    for (std::uint64_t i = 0; i < 12; ++i) {
      payloads_.push_back(pattern(100, i));
      tickets_.push_back(*out_.send_async(payloads_.back()));
    }
  }
  void expect_all(Consumer& in) {
    for (const auto& payload : payloads_) expect(in, payload);
    EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
    for (const Ticket ticket : tickets_) EXPECT_TRUE(out_.wait(ticket, soon()));
  }
  Producer out_ = producer();
  std::vector<std::vector<std::byte>> payloads_;
  std::vector<Ticket> tickets_;
};

TEST_F(Waiting, ACloseThatTimesOutEndsTheStreamBehindThem) {
  const auto closed = out_.close(Deadline::now());
  ASSERT_FALSE(closed);
  EXPECT_EQ(to_string(closed.error()),
            "channel 'frames': 4 messages of send_async() not sent in time; they still go, then "
            "the end of the stream: close() again waits for that");
  const auto more = pattern(100, 99);
  EXPECT_EQ(out_.send(more).error().code, Code::invalid_argument);
  EXPECT_EQ(out_.send_async(more).error().code, Code::invalid_argument);
  Consumer in = consumer();
  expect_all(in);
  EXPECT_TRUE(out_.close(soon()));
}

TEST_F(Waiting, ACloseInTimeComesBehindThem) {
  std::thread closer([&] { EXPECT_TRUE(out_.close(soon())); });
  Consumer in = consumer();
  for (const auto& payload : payloads_) expect(in, payload);
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  closer.join();
}

TEST_F(Waiting, ExplainSaysThatTheyComeFirst) {
  EXPECT_NE(out_.explain(100).text().find(
                "a send would wait for 4 messages of send_async(), which are before it"),
            std::string::npos)
      << out_.explain(100).text();
  Consumer in = consumer();
  for (const auto& payload : payloads_) expect(in, payload);
  ASSERT_TRUE(out_.wait(tickets_.back(), soon()));
  EXPECT_EQ(out_.explain(100).text().find("send_async"), std::string::npos);
}

}  // namespace
}  // namespace gantry
