#include <sys/epoll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/test_wakes.hpp"
#include "core/base/wake_limit.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_raw_consumer.hpp"
#include "core/channel/test_raw_producer.hpp"

// Whoever does with the wake-up sockets what it can: nobody else waits longer, or is woken the
// less.
namespace gantry {
namespace {

using test::consumer_options;
using test::Impostor;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::soon;

/// Asks for the producer's answer so often that whoever never slept would have been seen to.
void let_time_pass(const std::string& directory) {
  for (int i = 0; i < 200; ++i) static_cast<void>(list_channels(directory));
}

// The acceptor keeps pidfds of processes; so it is not all descriptors that count.
std::size_t open_sockets() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code failed;
    const auto kind = std::filesystem::read_symlink(entry, failed).string();
    count += kind.starts_with("socket:") ? 1 : 0;
  }
  return count;
}

class HostileWakes : public testing::Test {
 protected:
  HostileWakes() {
    options_.slots = 2;
    options_.consumers = 2;
    options_.spin = std::chrono::nanoseconds(0);
  }
  /// One that misses what it is too slow for, so that its mischief is all that could hold us up.
  Impostor join_hostile() {
    test::Joined joined = test::join_by_hand(directory_.path(), SlowConsumer::drop_newest);
    producer_page_ = std::move(joined.producer_page);
    pull_ = std::move(joined.wake_sender);
    return std::move(joined.impostor);
  }
  [[nodiscard]] std::uint32_t producers_wait_flag() const {
    return reinterpret_cast<const ProducerPage*>(producer_page_.data())->producer_sleeps.read();
  }
  /// Until it sleeps, or is about to.
  void await_sleeping_producer(std::uint32_t after) const {
    while (producers_wait_flag() <= after || producers_wait_flag() % 2 == 0)
      std::this_thread::yield();
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Region producer_page_;
  Fd pull_;  // that the hostile one was given
};

// It says before each message that it sleeps; its wake-up socket is full, and would have a writer
// wait.
TEST_F(HostileWakes, AFullOneThatBlocksDelaysNoSend) {
  auto out = *make_producer("frames", options_);
  Impostor hostile = join_hostile();
  test::fill_and_block(hostile.wake_receiver.wake_sender.descriptor());
  for (std::uint64_t i = 1; i <= 500; ++i) {
    hostile.page().consumer_sleeps.announce();
    ASSERT_TRUE(out.send(pattern(i % 2 == 0 ? 8 : 100, i), soon()));
    hostile.page().taken = i;
    for (std::size_t slot = 0; slot < kMaxSlots; ++slot) hostile.page().released.release(slot, i);
    hostile.page().consumer_sleeps.withdraw();
  }
}

// It reads without end from what it was given to wake the producer with.
TEST_F(HostileWakes, SwallowingTakesNobodyElsesWakeUps) {
  auto out = *make_producer("frames", options_);
  const Impostor hostile = join_hostile();
  auto in = *Consumer::open("frames", consumer_options(options_), soon());
  std::atomic<bool> enough{false};
  std::thread swallowing([&] {
    std::array<char, 64> bytes{};
    while (!enough) static_cast<void>(::read(pull_.get(), bytes.data(), bytes.size()) + 1);
  });
  for (std::uint64_t i = 1; i <= options_.slots; ++i) ASSERT_TRUE(out.send(pattern(8, i), soon()));
  constexpr std::uint64_t kRounds = 2000;
  std::atomic<bool> sent_all{true};
  std::thread sending([&] {
    for (std::uint64_t i = 0; i < kRounds && sent_all; ++i)
      sent_all = out.send(pattern(8, i), soon()).has_value();
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const std::uint32_t before = producers_wait_flag();
    await_sleeping_producer(before - before % 2);
    const auto message = in.receive(soon());
    if (!message) break;
    while (producers_wait_flag() == (before | 1) && sent_all) std::this_thread::yield();
  }
  sending.join();
  enough = true;
  swallowing.join();
  EXPECT_TRUE(sent_all);
}

// As when it is killed, before the acceptor has seen it: its wake-up socket is readable for ever.
TEST_F(HostileWakes, TheEndOfOneDoesNotKeepTheProducerAwake) {
  auto out = *make_producer("frames", options_);
  const Impostor hostile = join_hostile();
  auto in = *Consumer::open("frames", consumer_options(options_), soon());
  for (std::uint64_t i = 1; i <= options_.slots; ++i) ASSERT_TRUE(out.send(pattern(8, i), soon()));
  Result<void> sent;
  std::thread sending([&] { sent = out.send(pattern(8, 3), soon()); });
  await_sleeping_producer(0);
  const std::uint32_t asleep = producers_wait_flag();
  pull_.reset();
  await_sleeping_producer(asleep);
  let_time_pass(directory_.path());
  EXPECT_LE(producers_wait_flag(), asleep + 4) << "two more for each time it was woken";
  EXPECT_TRUE(in.receive(soon()));
  sending.join();
  EXPECT_TRUE(sent) << sent.error().message;
}

// Its rings lie there, more than it is listened to. It is looked at again and again none the less:
// the producer sleeps on, and wakes by itself to find what it did.
TEST_F(HostileWakes, WhoRingsForNothingIsLateAndNotLost) {
  auto out = *make_producer("frames", options_);
  test::Joined hostile = test::join_by_hand(directory_.path());
  for (std::uint64_t i = 1; i <= options_.slots; ++i) ASSERT_TRUE(out.send(pattern(8, i), soon()));
  const std::array<char, 4096> rings{};
  while (::send(hostile.wake_sender.get(), rings.data(), rings.size(), MSG_DONTWAIT) > 0) continue;
  std::atomic<bool> sent{false};
  std::thread sending([&] { sent = out.send(pattern(8, 3), soon()).has_value(); });
  constexpr std::uint32_t kLooks = WakeLimit::kMostIdle + 8;  // more than without a mute's end
  const Deadline patience = Deadline::after(std::chrono::seconds(20));
  while (hostile.producers_wait_flag() < 2 * kLooks && !patience.passed())
    std::this_thread::yield();
  EXPECT_GE(hostile.producers_wait_flag(), 2 * kLooks);
  hostile.impostor.page().taken.store(1, std::memory_order_seq_cst);
  sending.join();
  EXPECT_TRUE(sent);
}

// The wake-up socket of one that left with a message in hand is rung when it releases that.
TEST_F(HostileWakes, WhatIsReleasedAfterLeavingWakesTheProducer) {
  options_.consumers = 1;
  options_.pool.budget_bytes = options_.pool.slab_bytes;
  auto out = *make_producer("frames", options_);
  auto in = std::make_optional(*Consumer::open("frames", consumer_options(options_), soon()));
  ASSERT_TRUE(out.send(pattern(kMiB * 3 / 4, 1), soon()));
  std::optional<Message> held = *in->receive(soon());
  in.reset();
  while (out.explain(8).status.consumers.size() == 1) std::this_thread::yield();
  const Impostor watching = join_hostile();
  Result<void> sent;
  std::thread sending([&] { sent = out.send(pattern(kMiB * 3 / 4, 2), soon()); });
  await_sleeping_producer(0);
  while (!test::others_sleep()) std::this_thread::yield();
  held.reset();
  sending.join();
  EXPECT_TRUE(sent) << sent.error().message;
}

TEST_F(HostileWakes, LeaveNoSocketsBehind) {
  auto out = *make_producer("frames", options_);
  const auto none_there = [&] { return out.explain(8).status.consumers.empty(); };
  const auto come_and_go = [&] {
    {
      const Impostor hostile = join_hostile();
      pull_.reset();
      const auto in = *Consumer::open("frames", consumer_options(options_), soon());
      ASSERT_TRUE(out.send(pattern(8, 1), soon()));
    }
    while (!none_there()) std::this_thread::yield();
    while (!test::others_sleep()) std::this_thread::yield();  // the acceptor closes what they left
  };
  come_and_go();
  const std::size_t before = open_sockets();
  for (int i = 0; i < 10; ++i) come_and_go();
  EXPECT_EQ(open_sockets(), before);
}

/// A consumer whose producer is the hostile one.
class HostileWakesOfAProducer : public HostileWakes {
 protected:
  HostileWakesOfAProducer() {
    std::thread serving([this] {
      EXPECT_TRUE(*wait_readable(claim_.listener(), soon()));
      socket_.reset(::accept4(claim_.listener(), nullptr, nullptr, SOCK_CLOEXEC));
      const auto hello = receive_wire(socket_.get(), soon());
      EXPECT_TRUE(hello);
      raw_.take_in(socket_);
    });
    in_.emplace(*Consumer::open("frames", consumer_options(options_), soon()));
    serving.join();
  }
  [[nodiscard]] std::uint32_t intent() { return raw_.consumer_page().consumer_sleeps.read(); }
  void publish_small(std::uint64_t number) {
    MessageRecord record{};
    record.header.number = number;
    record.header.slot = kNoSlot;
    raw_.publish(number, record);
    raw_.wake();
  }

  Claim claim_ = *Claim::take(directory_.path(), "frames");
  Fd socket_;
  test::RawProducer raw_;
  std::optional<Consumer> in_;
};

TEST_F(HostileWakesOfAProducer, ItsEndDoesNotKeepTheConsumerAwake) {
  Result<Message> got = tl::unexpected(Error{});
  std::thread receiving([&] { got = in_->receive(soon()); });
  while (intent() % 2 == 0) std::this_thread::yield();
  const std::uint32_t asleep = intent();
  raw_.drop_wake();
  while (intent() <= asleep || intent() % 2 == 0) std::this_thread::yield();
  for (int i = 0; i < 20'000; ++i) std::this_thread::yield();
  EXPECT_LE(intent(), asleep + 4) << "two more for each time it was woken";
  socket_.reset();
  receiving.join();
  EXPECT_EQ(got.error().code, Code::peer_gone);
}

TEST_F(HostileWakesOfAProducer, ItsEndDoesNotKeepALoopAwake) {
  const int event = *in_->event_descriptor();
  EXPECT_EQ(in_->receive(Deadline::now()).error().code, Code::timed_out);
  EXPECT_FALSE(would_pass(event, POLLIN));
  raw_.drop_wake();
  EXPECT_TRUE(would_pass(event, POLLIN));
  EXPECT_EQ(in_->receive(Deadline::now()).error().code, Code::timed_out);
  EXPECT_FALSE(would_pass(event, POLLIN));
}

TEST_F(HostileWakesOfAProducer, ALoopBeginsWithALook) {
  publish_small(1);
  const int event = *in_->event_descriptor();
  EXPECT_TRUE(would_pass(event, POLLIN));
  EXPECT_TRUE(in_->receive(Deadline::now()));
  EXPECT_EQ(in_->receive(Deadline::now()).error().code, Code::timed_out);
  EXPECT_FALSE(would_pass(event, POLLIN));
  publish_small(2);
  EXPECT_TRUE(would_pass(event, POLLIN));
}

// It gave away a wake-up socket that is full and blocks; giving credits back does not wait for it.
TEST_F(HostileWakesOfAProducer, AFullOneThatBlocksDelaysNoRelease) {
  test::fill_and_block(raw_.wake_sender());
  for (std::uint64_t i = 1; i <= 500; ++i) {
    raw_.page().producer_sleeps.announce();
    publish_small(i);
    ASSERT_TRUE(in_->receive(soon()));
    raw_.page().producer_sleeps.withdraw();
  }
}

}  // namespace
}  // namespace gantry
