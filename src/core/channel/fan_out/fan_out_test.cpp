#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "core/channel/test_fan_out.hpp"

// Several consumers of one channel: one copy, a policy each; who comes late, who leaves, who stays.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::pattern;
using test::same;
using test::soon;

class FanOut : public test::FanOutFixture {
 protected:
  Result<void> send(Bytes size, std::uint64_t seed, Deadline deadline = soon()) {
    return out().send(pattern(size, seed), {.deadline = deadline, .user = seed});
  }
  /// The `user` words of all that is there.
  static std::vector<std::uint64_t> take_all(Consumer& in) {
    std::vector<std::uint64_t> seen;
    while (const auto message = in.receive(Deadline::now())) {
      EXPECT_TRUE(same(message->bytes(), pattern(message->bytes().size(), message->info().user)));
      seen.push_back(message->info().user);
    }
    return seen;
  }
};

using Seen = std::vector<std::uint64_t>;

// Together they would hold each slot that there is.
TEST_F(FanOut, WhoIsToHoldNobodyUpDoesNotHoldAllSlots) {
  constexpr int kMany = 20;
  options_.slots = 4;
  options_.consumers = kMany + 1;
  for (const SlowConsumer policy : {SlowConsumer::drop_newest, SlowConsumer::drop_oldest}) {
    Consumer fast = join();
    std::vector<Consumer> others;
    std::vector<Message> held;
    std::uint64_t number = 0;
    const auto send_and_take = [&] {
      ASSERT_TRUE(send(5000, ++number)) << number;
      EXPECT_EQ(take_all(fast), Seen{number});
    };
    for (int i = 0; i < kMany; ++i) {
      others.push_back(join(policy, 4));
      for (int j = 0; j < 4; ++j) {
        send_and_take();
        while (auto message = others.back().receive(Deadline::now()))
          held.push_back(std::move(*message));
      }
    }
    EXPECT_GE(held.size(), 56u) << "but for what the sender needs they may have all";
    for (int i = 0; i < 20; ++i) send_and_take();
    for (const Message& one : held)
      EXPECT_TRUE(same(one.bytes(), pattern(one.bytes().size(), one.info().user)));
    out_.reset();
  }
}

TEST_F(FanOut, EveryReaderGetsEveryMessageFromOneCopy) {
  std::vector<Consumer> consumers;
  for (int i = 0; i < 4; ++i) consumers.push_back(join());
  ASSERT_TRUE(out().wait_for_consumer(soon(), 4));
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed})
    for (const Bytes size : {Bytes{30}, Bytes{5000}, 2 * kMiB}) {
      const auto payload = pattern(size, size);
      std::thread sender(
          [&] { ASSERT_TRUE(out().send(payload, {.deadline = soon(), .mode = mode})); });
      std::vector<std::thread> reading;
      for (Consumer& consumer : consumers)
        reading.emplace_back([&] {
          const auto message = consumer.receive(soon());
          ASSERT_TRUE(message) << message.error().message;
          EXPECT_TRUE(same(message->bytes(), payload));
        });
      for (std::thread& one : reading) one.join();
      sender.join();
    }
  EXPECT_EQ(out().metrics().copies[0], 9u) << "one a message";
}

TEST_F(FanOut, OneMoreThanThereMayBeIsRefused) {
  options_.consumers = 2;
  const Consumer one = join(), two = join();
  const auto third = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::already_exists);
}

TEST_F(FanOut, ABlockingReaderHoldsEveryoneUp) {
  Consumer fast = join(), slow = join();
  for (unsigned i = 1; i <= options_.slots; ++i) {
    ASSERT_TRUE(send(1000, i));
    ASSERT_TRUE(fast.receive(soon()));
  }
  EXPECT_EQ(send(1000, 99, Deadline::now()).error().code, Code::timed_out);
  ASSERT_TRUE(slow.receive(soon()));
  EXPECT_TRUE(send(1000, 99));
}

TEST_F(FanOut, ADroppingReaderMissesTheNewestAndHoldsNobodyUp) {
  Consumer fast = join(), slow = join(SlowConsumer::drop_newest, 2);
  std::vector<std::uint64_t> expected;
  for (unsigned i = 1; i <= 40; ++i) {
    ASSERT_TRUE(send(i % 2 == 0 ? 20 : 1000, i));
    EXPECT_EQ(take_all(fast), Seen{i});
  }
  EXPECT_EQ(take_all(slow), (Seen{1, 2}));
  ASSERT_TRUE(send(1000, 41));
  EXPECT_EQ(take_all(slow), Seen{41}) << "the numbers in between tell what it missed";
}

// What it holds in its hands counts too, and stays untouched.
TEST_F(FanOut, ADroppingReaderKeepsWhatItHolds) {
  Consumer fast = join(), slow = join(SlowConsumer::drop_newest, 2);
  ASSERT_TRUE(send(5000, 1));
  ASSERT_TRUE(send(5000, 2));
  const Message first = *slow.receive(soon()), second = *slow.receive(soon());
  for (unsigned i = 3; i <= 200; ++i) {
    take_all(fast);
    ASSERT_TRUE(send(5000, i));
  }
  EXPECT_TRUE(same(first.bytes(), pattern(5000, 1)));
  EXPECT_TRUE(same(second.bytes(), pattern(5000, 2)));
  EXPECT_TRUE(take_all(slow).empty());
}

TEST_F(FanOut, AReaderThatIsToBeDisconnectedIs) {
  Consumer fast = join(), slow = join(SlowConsumer::disconnect, 2);
  for (unsigned i = 1; i <= 10; ++i) {
    ASSERT_TRUE(send(1000, i));
    EXPECT_EQ(take_all(fast), Seen{i});
  }
  EXPECT_TRUE(slow.receive(soon()));
  EXPECT_TRUE(slow.receive(soon()));
  EXPECT_EQ(slow.receive(soon()).error().code, Code::peer_gone);
  EXPECT_TRUE(slow.rejoin(soon()));
  ASSERT_TRUE(send(1000, 11));
  EXPECT_EQ(take_all(slow), Seen{11});
}

// The short way of small messages must look at what such a consumer has taken.
TEST_F(FanOut, ALossyReaderThatKeepsUpMissesNothing) {
  Consumer in = join(SlowConsumer::drop_newest, 2);
  for (unsigned i = 1; i <= 100; ++i) {
    ASSERT_TRUE(send(20, i));
    EXPECT_EQ(take_all(in), Seen{i});
  }
}

TEST_F(FanOut, AStreamWaitsForNobodyWhoIsToHoldNobodyUp) {
  for (const SlowConsumer policy :
       {SlowConsumer::drop_newest, SlowConsumer::drop_oldest, SlowConsumer::disconnect}) {
    Consumer fast = join(), slow = join(policy, 2);
    ASSERT_TRUE(out().wait_for_consumer(soon(), 2));
    const auto payload = pattern(4 * kMiB, 1);
    std::thread sender([&] {
      ASSERT_TRUE(out().send(payload, {.deadline = soon(), .mode = SendMode::streamed}));
    });
    const auto message = fast.receive(soon());
    sender.join();  // though `slow` never looks
    ASSERT_TRUE(message);
    EXPECT_TRUE(same(message->bytes(), payload));
  }
}

// ---- coming late, leaving ------------------------------------------------------------------

TEST_F(FanOut, WhoComesLateGetsTheLastOnes) {
  options_.history = 3;
  Consumer early = join();
  for (unsigned i = 1; i <= 20; ++i) {
    ASSERT_TRUE(send(i % 3 == 0 ? 10 : 3000, i));
    EXPECT_EQ(take_all(early), Seen{i});
  }
  Consumer late = join();
  EXPECT_EQ(take_all(late), (Seen{18, 19, 20}));
  ASSERT_TRUE(send(3000, 21));
  EXPECT_EQ(take_all(late), Seen{21});
  EXPECT_EQ(take_all(early), Seen{21});
}

TEST_F(FanOut, WithoutAHistoryWhoComesLateGetsTheNextOnes) {
  Consumer early = join();
  ASSERT_TRUE(send(3000, 1));
  Consumer late = join();
  ASSERT_TRUE(send(3000, 2));
  EXPECT_EQ(take_all(late), Seen{2});
  EXPECT_EQ(take_all(early), (Seen{1, 2}));
}

TEST_F(FanOut, OneThatLeavesGivesItsSlotsBack) {
  Consumer stays = join();
  {
    Consumer leaves = join();
    for (unsigned i = 1; i <= options_.slots; ++i) ASSERT_TRUE(send(1000, i));
    EXPECT_EQ(take_all(stays).size(), options_.slots);
    EXPECT_EQ(send(1000, 99, Deadline::now()).error().code, Code::timed_out);
  }
  EXPECT_TRUE(send(1000, 99)) << "its slots came back when it hung up";
}

// It hung up, yet its process lives and reads on: nobody else gets that memory.
TEST_F(FanOut, WhatAReaderThatLeftStillHoldsIsNotWrittenTo) {
  Consumer stays = join();
  std::optional<Consumer> leaves(join());
  ASSERT_TRUE(send(5000, 1));
  const Message held = *leaves->receive(soon());
  leaves.reset();
  take_all(stays);
  for (unsigned i = 2; i <= 100; ++i) {
    ASSERT_TRUE(send(5000, i));
    take_all(stays);
  }
  EXPECT_TRUE(same(held.bytes(), pattern(5000, 1)));
}

// A stream's window is filled anew when its consumer has left: what is not there by then never
// comes.
TEST_F(FanOut, AMessageThatIsLandingEndsWithItsConsumer) {
  Consumer stays = join();
  std::optional<Consumer> leaves(join());
  const auto payload = pattern(4 * kMiB, 1);
  for (const SendMode mode : {SendMode::streamed, SendMode::pipelined}) {
    std::thread sender(
        [&] { ASSERT_TRUE(out().send(payload, {.deadline = soon(), .mode = mode})); });
    auto left = leaves->receive_early(soon());
    auto whole = stays.receive_early(soon());
    ASSERT_TRUE(left && whole);
    ASSERT_TRUE(left->next(soon()));
    leaves.reset();
    EXPECT_TRUE(same(whole->whole(soon())->bytes(), payload));
    sender.join();
    Result<ConstByteSpan> next = left->next(soon());
    while (next && !next->empty()) next = left->next(soon());
    EXPECT_TRUE(mode == SendMode::pipelined || next.error().code == Code::closed);
    leaves.emplace(join());
  }
}

TEST_F(FanOut, WhatTheLastReaderDidNotTakeWaitsForTheNext) {
  {
    Consumer first = join();
    for (unsigned i = 1; i <= 5; ++i) ASSERT_TRUE(send(i % 2 == 0 ? 10 : 3000, i));
    ASSERT_TRUE(first.receive(soon()));
    ASSERT_TRUE(first.receive(soon()));
  }
  Result<void> sent;
  while (sent) sent = send(10, 6);  // until it is noticed; at most the credits
  EXPECT_EQ(sent.error().code, Code::peer_gone) << sent.error().message;
  Consumer second = join();
  auto waiting = take_all(second);
  ASSERT_GE(waiting.size(), 3u);
  waiting.resize(3);
  EXPECT_EQ(waiting, (Seen{3, 4, 5}));
  ASSERT_TRUE(send(3000, 7)) << "it goes on";
  EXPECT_EQ(take_all(second), Seen{7});
}

TEST_F(FanOut, TheEndIsForEveryone) {
  Consumer one = join(), two = join();
  ASSERT_TRUE(send(3000, 1));
  EXPECT_EQ(out().close(Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(take_all(one), Seen{1});
  EXPECT_EQ(out().close(Deadline::now()).error().code, Code::timed_out) << "two has not";
  EXPECT_EQ(take_all(two), Seen{1});
  EXPECT_TRUE(out().close(soon()));
  EXPECT_EQ(one.receive(soon()).error().code, Code::closed);
  EXPECT_EQ(two.receive(soon()).error().code, Code::closed);
}

TEST_F(FanOut, BytesInFlightAreACreditToo) {
  options_.bytes_in_flight = 10'000;
  Consumer in = join();
  ASSERT_TRUE(send(6000, 1));
  EXPECT_EQ(send(6000, 2, Deadline::now()).error().code, Code::timed_out);
  ASSERT_TRUE(send(4000, 3, Deadline::now()));
  EXPECT_EQ(take_all(in), (Seen{1, 3}));
  EXPECT_TRUE(send(50'000, 4, Deadline::now())) << "a larger one goes alone";
  EXPECT_EQ(send(100, 5, Deadline::now()).error().code, Code::timed_out);
}

TEST_F(FanOut, OptionsThatCannotBeAreRefused) {
  const auto code = [this](auto change) {
    ProducerOptions options = options_;
    change(options);
    const auto made = make_producer("other", options);
    return made ? Code::closed : made.error().code;
  };
  EXPECT_EQ(code([](auto& o) { o.consumers = 0; }), Code::invalid_argument);
  EXPECT_EQ(code([](auto& o) { o.consumers = 33; }), Code::invalid_argument);
  EXPECT_EQ(code([](auto& o) { o.history = 9; }), Code::invalid_argument);
  EXPECT_EQ(code([](auto& o) { o.slots = o.history = 33; }), Code::invalid_argument);
  EXPECT_EQ(out().wait_for_consumer(soon(), 5).error().code, Code::invalid_argument);
}

// ---- loops of one's own --------------------------------------------------------------------

TEST_F(FanOut, AnEventLoopMissesNothing) {
  constexpr std::uint64_t kMessages = 2000;
  Consumer in = join();
  const auto descriptor = in.event_descriptor();
  ASSERT_TRUE(descriptor);
  std::thread sender([&] {
    for (std::uint64_t i = 1; i <= kMessages; ++i) ASSERT_TRUE(send(i % 5 == 0 ? 70'000 : 20, i));
    ASSERT_TRUE(out().close(soon()));
  });
  std::uint64_t seen = 0;
  for (bool ended = false; !ended;) {
    pollfd entry{*descriptor, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "after " << seen;
    for (;;) {
      const auto message = in.receive(Deadline::now());
      if (message) {
        EXPECT_EQ(message->info().user, ++seen);
        continue;
      }
      ended = message.error().code == Code::closed;
      ASSERT_TRUE(ended || message.error().code == Code::timed_out) << message.error().message;
      break;
    }
  }
  EXPECT_EQ(seen, kMessages);
  sender.join();
}

// Who takes one message and never asks again has given its credit back all the same.
TEST_F(FanOut, OneMessageTakenIsOneCredit) {
  Consumer in = join();
  for (unsigned i = 1; i <= options_.slots; ++i) ASSERT_TRUE(send(20, i));
  std::thread sender([&] { ASSERT_TRUE(send(20, 99)); });
  ASSERT_TRUE(in.receive(soon()));
  sender.join();  // and nothing else is done here
}

TEST_F(FanOut, LookingWithoutWaitingShowsADeath) {
  Consumer in = join();
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::timed_out);
  out_.reset();
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::peer_gone);
}

TEST_F(FanOut, AnEventLoopLearnsOfTheEnd) {
  Consumer in = join();
  const int descriptor = *in.event_descriptor();
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::timed_out);
  std::thread dropping([this] { out_.reset(); });
  pollfd entry{descriptor, POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
  dropping.join();
}

// Who joins, leaves with a message in hand, and joins again, has not all memory in the end.
TEST_F(FanOut, WhoLeavesWithTooMuchInHandIsNotLetInAgain) {
  std::vector<Message> hoard;
  Result<Consumer> in = Consumer::open("frames", (out(), consumer_options(options_)), soon());
  for (; in && hoard.size() < 100;
       in = Consumer::open("frames", consumer_options(options_), soon())) {
    ASSERT_TRUE(send(1000, hoard.size()));
    hoard.push_back(*in->receive(soon()));
    in = tl::unexpected(Error{});  // it leaves
    while (out().explain().status.departed.size() < hoard.size()) std::this_thread::yield();
  }
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::busy) << in.error().message;
  EXPECT_EQ(hoard.size(), 64u);
  hoard.pop_back();
  EXPECT_TRUE(Consumer::open("frames", consumer_options(options_), soon())) << "it released one";
}

}  // namespace
}  // namespace gantry
