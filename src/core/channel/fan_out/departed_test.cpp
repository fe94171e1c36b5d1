#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/channel/test_fan_out.hpp"
#include "core/channel/test_gated_engine.hpp"

// Consumers that are cut off, or leave, while they may still read: what they get is what was sent.
namespace gantry {
namespace {

using test::CopyGate;
using test::GatedEngine;
using test::pattern;
using test::same;
using test::soon;

class Departed : public test::FanOutFixture {
 protected:
  Departed() { options_.slots = 4; }
  void send(Bytes size, std::uint64_t seed, SendMode mode = SendMode::whole) {
    const auto sent =
        out().send(pattern(size, seed), {.deadline = soon(), .mode = mode, .user = seed});
    ASSERT_TRUE(sent) << sent.error().message;
  }
  static bool is_as_sent(const Message& message) {
    return same(message.bytes(), pattern(message.bytes().size(), message.info().user));
  }
  static void take_and_check(Consumer& in, std::uint64_t seed) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_EQ(message->info().user, seed);
    EXPECT_TRUE(is_as_sent(*message));
  }
  /// So that slots and blocks are used again and again.
  void send_on(Consumer& fast, Bytes size, std::uint64_t first, std::uint64_t last, SendMode mode) {
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      send(size, seed, mode);
      take_and_check(fast, seed);
    }
  }
  std::size_t departed() { return out().explain().status.departed.size(); }
};

// It is hung up on with messages unread in its ring, and reads them later.
TEST_F(Departed, WhoIsCutGetsWhatItWasGivenAndNothingElse) {
  for (const Bytes size : {Bytes{20}, Bytes{5000}, Bytes{100'000}}) {
    Consumer fast = join(), slow = join(SlowConsumer::disconnect, 2);
    send_on(fast, size, 1, 40, SendMode::whole);
    take_and_check(slow, 1);
    auto second = slow.receive(soon());
    ASSERT_TRUE(second);
    send_on(fast, size, 41, 80, SendMode::whole);
    EXPECT_EQ(second->info().user, 2u);
    EXPECT_TRUE(is_as_sent(*second)) << "until it is released";
    EXPECT_EQ(slow.receive(soon()).error().code, Code::peer_gone);
    send_on(fast, size, 81, 120, SendMode::whole);
    EXPECT_TRUE(is_as_sent(*second)) << "the hang-up confirms that it takes no more, not that it "
                                        "reads no more";
  }
}

// Its slots are lent again, to larger messages, before it looks how far its own have landed.
TEST_F(Departed, WhoIsCutBelievesNoOtherMessagesLanding) {
  Consumer fast = join(), slow = join(SlowConsumer::disconnect, 2);
  send_on(fast, 300'000, 1, 3, SendMode::pipelined);
  send_on(fast, 500'000, 4, 12, SendMode::pipelined);
  for (int times = 0; times < 2; ++times) {
    const auto message = slow.receive(soon());
    ASSERT_FALSE(message) << message->info().user;
    EXPECT_EQ(message.error().code, Code::peer_gone) << message.error().message;
  }
  while (departed() != 0) std::this_thread::yield();  // it has confirmed
  EXPECT_TRUE(slow.rejoin(soon())) << "and may come again";
}

// The history has a handle to the same memory, and is dropped after the consumer's.
TEST_F(Departed, WhatItHoldsOutlivesTheProducerAndItsHistory) {
  options_.history = 4;
  options_.memory = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 8 * kMiB});
  std::optional<Consumer> in(join());
  send(100'000, 1);
  const auto held = in->receive(soon());
  ASSERT_TRUE(held);
  in.reset();
  while (departed() == 0) std::this_thread::yield();
  out_.reset();
  Consumer next = join();
  send_on(next, 100'000, 2, 12, SendMode::whole);
  EXPECT_TRUE(is_as_sent(*held));
}

TEST_F(Departed, WhatACutReaderHadComesBackWhenItConfirms) {
  options_.pool.budget_bytes = 4 * kMiB;
  Consumer fast = join(), slow = join(SlowConsumer::disconnect, 2);
  send_on(fast, kMiB - 4096, 1, 8, SendMode::whole);
  EXPECT_EQ(departed(), 1u) << "it keeps two messages of the four that there may be";
  EXPECT_EQ(out().explain().status.departed[0].messages, 2u);
  take_and_check(slow, 1);
  take_and_check(slow, 2);
  EXPECT_EQ(slow.receive(soon()).error().code, Code::peer_gone);
  while (departed() != 0) std::this_thread::yield();
  send_on(fast, kMiB - 4096, 9, 20, SendMode::whole);
}

// It dies, or leaves, without a look at what it was given.
TEST_F(Departed, WhatACutReaderNeverTakesComesBackWhenItLeaves) {
  Consumer fast = join();
  {
    const Consumer slow = join(SlowConsumer::disconnect, 2);
    send_on(fast, 5000, 1, 8, SendMode::whole);
    EXPECT_EQ(departed(), 1u);
  }
  while (departed() != 0) std::this_thread::yield();
}

// All of it lies in the window, and nobody has taken any of it.
TEST_F(Departed, AStreamedMessageWaitsForASuccessor) {
  options_.consumers = 1;
  for (const Bytes size : {Bytes{40'000}, Bytes{128 * 1024}}) {
    std::optional<Consumer> first(join());
    send(size, 7, SendMode::streamed);
    first.reset();
    Consumer second = join();
    take_and_check(second, 7);
    send(size, 8, SendMode::streamed);
    take_and_check(second, 8);
  }
}

/// A streamed message that waits for the window of its only consumer.
class Untaken : public Departed {
 protected:
  Untaken() {
    options_.consumers = 2;
    out_.emplace(*Producer::open("frames", options_, std::make_shared<GatedEngine>(gate_)));
    first_.emplace(join());
    ticket_ = *out_->send_async(payload_, {.deadline = soon(), .mode = SendMode::streamed});
    while (consumers().empty() || consumers()[0].unread == 0) std::this_thread::yield();
  }
  std::vector<ConsumerStatus> consumers() { return out_->explain().status.consumers; }
  void expect_not_sent() {
    gate_.open();
    const auto sent = out_->wait(ticket_, soon());
    ASSERT_FALSE(sent) << "nobody has it";
    EXPECT_EQ(sent.error().code, Code::peer_gone) << sent.error().message;
  }

  CopyGate gate_;
  const std::vector<std::byte> payload_ = pattern(4 * kMiB, 1);
  std::optional<Consumer> first_;
  Ticket ticket_{};
};

// Another consumer has come by the time the sender looks.
TEST_F(Untaken, IsNotSentWhenASuccessorCame) {
  first_.reset();
  while (!consumers().empty()) std::this_thread::yield();
  Consumer second = join();
  expect_not_sent();
  send(5000, 2);
  take_and_check(second, 2);
}

TEST_F(Untaken, IsNotSentWhenAnotherCameBefore) {
  Consumer second = join();
  first_.reset();
  while (consumers().size() != 1) std::this_thread::yield();
  expect_not_sent();
  send(5000, 2);
  take_and_check(second, 2);
}

// ---- half-way ------------------------------------------------------------------------------

/// A streamed message that stops half-way, at a window that another consumer holds up.
class HalfWay : public Departed {
 protected:
  HalfWay() : payload_(pattern(4 * kMiB + 5, 1)) {
    options_.slots = 2;
    in_.emplace(join());
    blocker_.emplace(join());
    sender_ = std::thread([this] {
      sent_ = out().send(payload_, {.deadline = soon(), .mode = SendMode::streamed}).has_value();
    });
  }
  ~HalfWay() override {
    go_on();
    reading_.join();
    sender_.join();
    EXPECT_TRUE(sent_);
  }
  void go_on() {
    if (reading_.joinable()) return;
    reading_ = std::thread([this] {
      const auto message = blocker_->receive(soon());
      EXPECT_TRUE(message && same(message->bytes(), payload_));
    });
  }
  static Deadline shortly() { return Deadline::after(std::chrono::milliseconds(1)); }
  /// Until it has begun with the message and timed out within.
  template <class Receive>
  void time_out(Receive receive) {
    for (int times = 0; times < 20; times += in_->explain().landing ? 1 : 0)
      ASSERT_EQ(receive(), Code::timed_out);
  }
  void time_out_in_receive() {
    time_out([this] { return in_->receive(shortly()).error().code; });
  }
  void time_out_in_receive_into(ByteSpan buffer) {
    time_out([&] { return in_->receive_into(buffer, shortly()).error().code; });
  }

  std::vector<std::byte> payload_;
  std::optional<Consumer> in_, blocker_;
  std::thread sender_, reading_;
  std::atomic<bool> sent_{false};
};

TEST_F(HalfWay, ReceiveIntoAfterATimedOutReceiveHasAllOfIt) {
  time_out_in_receive();
  go_on();
  std::vector<std::byte> buffer(payload_.size());
  const auto copied = in_->receive_into(buffer, soon());
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(copied->bytes, payload_.size());
  EXPECT_TRUE(same(buffer, payload_));
}

TEST_F(HalfWay, ReceiveEarlyAfterATimedOutReceiveBeginsAtTheBeginning) {
  time_out_in_receive();
  go_on();
  auto incoming = in_->receive_early(soon());
  ASSERT_TRUE(incoming);
  Bytes at = 0;
  for (auto chunk = incoming->next(soon()); chunk && !chunk->empty();
       chunk = incoming->next(soon())) {
    ASSERT_LE(at + chunk->size(), payload_.size());
    ASSERT_TRUE(same(*chunk, ConstByteSpan(payload_).subspan(at, chunk->size()))) << at;
    at += chunk->size();
  }
  EXPECT_EQ(at, payload_.size());
}

TEST_F(HalfWay, ReceiveAfterATimedOutReceiveHasAllOfIt) {
  time_out_in_receive();
  go_on();
  const auto message = in_->receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_TRUE(same(message->bytes(), payload_));
}

// Its first chunks lie in that buffer and nowhere else.
TEST_F(HalfWay, OnlyReceiveIntoTheSameBufferGoesOnWithWhatItBegan) {
  std::vector<std::byte> buffer(payload_.size()), other(payload_.size());
  time_out_in_receive_into(buffer);
  EXPECT_EQ(in_->receive_into(other, shortly()).error().code, Code::invalid_argument);
  EXPECT_EQ(in_->receive_early(shortly()).error().code, Code::invalid_argument);
  const auto message = in_->receive(shortly());
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Code::invalid_argument);
  EXPECT_NE(message.error().hint.find("same buffer"), std::string::npos) << message.error().hint;
  go_on();
  const auto copied = in_->receive_into(buffer, soon());
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(copied->bytes, payload_.size());
  EXPECT_TRUE(same(buffer, payload_));
}

// What lies in a block can be had from its beginning at any time.
TEST_F(Departed, APipelinedMessageCanBeBegunAgainElsewhere) {
  Consumer in = join();
  const auto payload = pattern(3 * kMiB, 3);
  send(payload.size(), 3, SendMode::pipelined);
  auto incoming = *in.receive_early(soon());
  std::vector<std::byte> buffer(payload.size());
  ASSERT_TRUE(incoming.next(soon()));
  EXPECT_EQ(incoming.into(ByteSpan(buffer).first(10), soon()).error().code, Code::invalid_argument);
  const auto whole = incoming.whole(soon());
  ASSERT_TRUE(whole);
  EXPECT_TRUE(same(whole->bytes(), payload));
}

// ---- an Incoming in hand ---------------------------------------------------------------------

TEST_F(Departed, WaitingForMoreThanASmallMessageHasIsAnError) {
  Consumer in = join();
  send(64, 1);
  auto incoming = *in.receive_early(soon());
  const auto waited = incoming.wait_for(65, soon());
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Code::invalid_argument);
  const auto all = incoming.wait_for(64, soon());
  ASSERT_TRUE(all);
  EXPECT_TRUE(same(*all, pattern(64, 1)));
}

TEST_F(Departed, AnIncomingThatBecameAMessageSaysSo) {
  Consumer in = join();
  for (const Bytes size : {Bytes{20}, Bytes{50'000}}) {
    for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed}) {
      send(size, 1, mode);
      auto incoming = *in.receive_early(soon());
      const auto message = incoming.whole(soon());
      ASSERT_TRUE(message && is_as_sent(*message));
      std::vector<std::byte> buffer(size);
      EXPECT_EQ(incoming.next(soon()).error().code, Code::invalid_argument);
      EXPECT_EQ(incoming.wait_for(1, soon()).error().code, Code::invalid_argument);
      EXPECT_EQ(incoming.into(buffer, soon()).error().code, Code::invalid_argument);
      EXPECT_EQ(incoming.whole(soon()).error().code, Code::invalid_argument);
    }
  }
  Incoming none;
  EXPECT_EQ(none.next(soon()).error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
