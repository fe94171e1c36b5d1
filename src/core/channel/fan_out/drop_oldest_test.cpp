#include <gmock/gmock.h>
#include <poll.h>

#include <thread>

#include "core/channel/test_support.hpp"

// Consumers from whom the oldest message is taken back: what they find, what they keep, and that
// nobody waits for them. Seen to fail: with the newest dropped instead; with a message taken back
// that is in hand; without the slot for the newest; with what was taken back not counted.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;
using Seen = std::vector<std::uint64_t>;

class DropOldest : public testing::Test {
 protected:
  DropOldest() { options_.consumers = 4; }
  Producer& out() {
    if (!out_) out_.emplace(*make_producer("frames", options_));
    return *out_;
  }
  Consumer join(SlowConsumer policy, unsigned depth = 0) {
    out();
    ConsumerOptions options = consumer_options(options_);
    options.when_slow = policy;
    options.depth = depth;
    return *Consumer::open("frames", options, soon());
  }
  Consumer join_lossy(unsigned depth) { return join(SlowConsumer::drop_oldest, depth); }
  void send(Bytes size, std::uint64_t seed, SendMode mode = SendMode::automatic) {
    const auto sent =
        out().send(pattern(size, seed), {.deadline = soon(), .mode = mode, .user = seed});
    ASSERT_TRUE(sent) << sent.error().message;
  }
  void send_all(std::uint64_t first, std::uint64_t last, Bytes size) {
    for (std::uint64_t i = first; i <= last; ++i) send(size, i);
  }
  static Seen take_all(Consumer& in) {
    Seen seen;
    while (const auto message = in.receive(Deadline::now())) {
      EXPECT_TRUE(same(message->bytes(), pattern(message->bytes().size(), message->info().user)));
      seen.push_back(message->info().user);
    }
    return seen;
  }
  std::uint64_t dropped(std::size_t consumer = 0) {
    return out().explain(100).status.consumers.at(consumer).dropped;
  }
  unsigned slots_held() { return out().explain(100).status.slots_held; }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
};

TEST_F(DropOldest, ALoanThatNobodyKeepsIsCountedWithItsBytes) {
  const Consumer slow = join(SlowConsumer::drop_newest, 1);
  send(5000, 1);
  auto loan = out().loan(7000, soon());
  ASSERT_TRUE(loan) << loan.error().message;
  ASSERT_TRUE(out().publish(std::move(*loan)));
  EXPECT_EQ(dropped(), 1u);
  EXPECT_EQ(out().explain(100).status.producer.messages, 2u);
  EXPECT_EQ(out().explain(100).status.producer.bytes, 12000u);
}

TEST_F(DropOldest, WhoComesLateFindsTheNewestInOrder) {
  for (const Bytes size : {Bytes{20}, Bytes{5000}}) {
    Consumer slow = join_lossy(3);
    send_all(1, 40, size);
    EXPECT_EQ(dropped(), 37u) << "before it looks";
    EXPECT_EQ(take_all(slow), (Seen{38, 39, 40}));
    EXPECT_EQ(dropped(), 37u);
    EXPECT_EQ(slow.explain().dropped, 37u);
    send(size, 41);
    EXPECT_EQ(take_all(slow), Seen{41});
    EXPECT_EQ(slots_held(), 0u);
    out_.reset();
  }
}

TEST_F(DropOldest, WhatIsDroppedIsSeenFromOutside) {
  Consumer slow = join_lossy(2);
  send_all(1, 12, 3000);
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed);
  const ConsumerStatus& one = listed->at(0).consumers.at(0);
  EXPECT_EQ(one.policy, SlowConsumer::drop_oldest);
  EXPECT_EQ(one.depth, 2u);
  EXPECT_EQ(one.unread, 2u);
  EXPECT_EQ(one.dropped, 10u);
  EXPECT_EQ(one.held.size(), 2u);
  EXPECT_EQ(slow.explain().unread, 2u);
  EXPECT_THAT(out().explain(100).text(), testing::HasSubstr("drop_oldest): 2 unread"));
  EXPECT_THAT(out().explain(100).text(), testing::HasSubstr("10 dropped"));
  EXPECT_EQ(slow.receive(soon())->info().sequence, 11u) << "the gap";
  EXPECT_THAT(slow.explain().text(), testing::HasSubstr("1 message unread, 10 dropped"));
}

TEST_F(DropOldest, SmallAndLargeKeepTheirOrder) {
  Consumer slow = join_lossy(4);
  for (std::uint64_t i = 1; i <= 30; ++i) send(i % 3 == 0 ? 9000 : 20, i);
  EXPECT_EQ(take_all(slow), (Seen{27, 28, 29, 30}));
  EXPECT_EQ(dropped(), 26u);
  EXPECT_EQ(slots_held(), 0u);
}

TEST_F(DropOldest, WhoKeepsUpMissesNothing) {
  Consumer in = join_lossy(1);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    send(i % 2 == 0 ? 20 : 5000, i);
    EXPECT_EQ(take_all(in), Seen{i});
  }
  EXPECT_EQ(dropped(), 0u);
}

TEST_F(DropOldest, WhatItTookStaysUntouched) {
  Consumer slow = join_lossy(2);
  send_all(1, 2, 5000);
  const Message first = *slow.receive(soon()), second = *slow.receive(soon());
  send_all(3, 200, 5000);
  EXPECT_TRUE(same(first.bytes(), pattern(5000, 1)));
  EXPECT_TRUE(same(second.bytes(), pattern(5000, 2)));
  EXPECT_EQ(take_all(slow), Seen{200}) << "the newest, whatever it holds";
  EXPECT_EQ(dropped(), 197u);
}

// In all slots that are not the sender's lies what another one has in hand or has not taken.
TEST_F(DropOldest, WhoKeepsUpFindsTheNewestBesideOneThatHoldsAllItMay) {
  for (const SlowConsumer other : {SlowConsumer::drop_newest, SlowConsumer::drop_oldest})
    for (const bool holds : {false, true}) {
      options_.slots = 64;
      Consumer hoarder = join(other, 32);
      std::vector<Message> held;
      send_all(1, 32, 5000);
      while (holds && held.size() < 32) held.push_back(std::move(*hoarder.receive(soon())));
      Consumer in = join_lossy(1), blocking = join(SlowConsumer::block);
      for (std::uint64_t i = 33; i <= 200; ++i) {
        send(5000, i);
        EXPECT_EQ(take_all(blocking), Seen{i});
        EXPECT_EQ(take_all(in), Seen{i});
      }
      const auto in_hand = in.receive(Deadline::now());
      EXPECT_FALSE(in_hand);
      send(5000, 201);
      const Message kept = *in.receive(soon());
      send_all(202, 204, 5000);
      EXPECT_EQ(take_all(in), Seen{204}) << "beside one that it has in hand";
      held.clear();
      out_.reset();
    }
}

// More in hand than its depth: then there is no place even for the newest.
TEST_F(DropOldest, WhatItHoldsIsBounded) {
  Consumer slow = join_lossy(2);
  std::vector<Message> held;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    send(5000, i);
    if (auto message = slow.receive(Deadline::now())) held.push_back(std::move(*message));
  }
  EXPECT_EQ(held.size(), 3u);
  EXPECT_EQ(dropped(), 7u);
  send(20, 11);
  EXPECT_EQ(take_all(slow), Seen{11}) << "a small one needs none";
  held.clear();
  send(5000, 12);
  EXPECT_EQ(take_all(slow), Seen{12});
  EXPECT_EQ(slots_held(), 0u);
}

TEST_F(DropOldest, TheOthersGetWhatTheirPolicySays) {
  Consumer all = join(SlowConsumer::block), newest = join_lossy(2);
  Consumer oldest = join(SlowConsumer::drop_newest, 2);
  Seen seen;
  for (std::uint64_t i = 1; i <= 60; ++i) {
    send(i % 4 == 0 ? 30 : 3000, i);
    for (const std::uint64_t one : take_all(all)) seen.push_back(one);
  }
  EXPECT_EQ(seen.size(), 60u);
  EXPECT_EQ(take_all(oldest), (Seen{1, 2}));
  EXPECT_EQ(take_all(newest), (Seen{59, 60}));
  EXPECT_EQ(dropped(0), 0u);
  EXPECT_EQ(dropped(1), 58u);
  EXPECT_EQ(dropped(2), 58u);
  EXPECT_EQ(slots_held(), 0u);
}

// What one that blocks still needs is taken back from the other only.
TEST_F(DropOldest, ASlotThatAnotherNeedsStays) {
  Consumer blocks = join(SlowConsumer::block), slow = join_lossy(1);
  send_all(1, options_.slots, 4000);
  EXPECT_EQ(slots_held(), options_.slots);
  EXPECT_EQ(out().send(pattern(4000, 9), Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(take_all(blocks).size(), options_.slots);
  EXPECT_EQ(take_all(slow), Seen{options_.slots});
}

// A budget of three messages: what it has not taken gives way, what it holds does not.
TEST_F(DropOldest, ItHoldsNobodyUpWithMemory) {
  options_.pool.budget_bytes = 3 * kMiB;
  options_.pool.slab_bytes = kMiB;
  Consumer slow = join_lossy(options_.slots);
  send(kMiB, 1);
  const auto first = slow.receive(soon());
  ASSERT_TRUE(first);
  for (std::uint64_t i = 2; i <= 20; ++i) send(kMiB, i);
  EXPECT_TRUE(same(first->bytes(), pattern(kMiB, 1)));
  const Seen rest = take_all(slow);
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(rest.back(), 20u);
  EXPECT_EQ(1 + rest.size() + dropped(), 20u);
}

TEST_F(DropOldest, MessagesThatLandAreTakenBackWholeOrNotAtAll) {
  Consumer slow = join_lossy(2);
  for (const SendMode mode : {SendMode::pipelined, SendMode::streamed, SendMode::whole}) {
    for (std::uint64_t i = 1; i <= 6; ++i) send(kMiB, i, mode);
    auto early = slow.receive_early(soon());
    ASSERT_TRUE(early);
    EXPECT_FALSE(early->is_streamed()) << "a window would wait for it";
    EXPECT_EQ(early->info().user, 5u);
    for (std::uint64_t i = 7; i <= 9; ++i) send(kMiB, i, mode);
    const auto whole = early->whole(soon());
    ASSERT_TRUE(whole);
    EXPECT_TRUE(same(whole->bytes(), pattern(kMiB, 5)));
    const Seen rest = take_all(slow);
    EXPECT_EQ(rest.back(), 9u);
    EXPECT_LE(rest.size(), 2u);
  }
}

TEST_F(DropOldest, OneThatIsBeingSentIsNotTakenBack) {
  Consumer slow = join_lossy(1);
  std::vector<std::vector<std::byte>> payloads;
  Ticket last{};
  for (std::uint64_t i = 1; i <= 20; ++i) payloads.push_back(pattern(kMiB + 1, i));
  std::uint64_t number = 0;
  for (const auto& payload : payloads) {
    const auto ticket = out().send_async(
        payload, {.deadline = soon(), .mode = SendMode::pipelined, .user = ++number});
    ASSERT_TRUE(ticket);
    last = *ticket;
  }
  std::uint64_t got = 0, newest = 0;
  while (newest != 20) {
    const auto message = slow.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_GT(message->info().user, newest);
    newest = message->info().user;
    EXPECT_TRUE(same(message->bytes(), payloads[newest - 1]));
    ++got;
  }
  ASSERT_TRUE(out().wait(last, soon()));
  EXPECT_EQ(got + dropped(), 20u);
}

TEST_F(DropOldest, WhoComesLateGetsTheHistoryAsFarAsItMay) {
  options_.history = 4;
  Consumer early = join(SlowConsumer::block);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    send(3000, i);
    take_all(early);
  }
  Consumer late = join_lossy(2);
  EXPECT_EQ(take_all(late), (Seen{7, 8, 9, 10})) << "what was kept for it";
  Consumer later = join_lossy(2);
  send(3000, 11);
  EXPECT_EQ(take_all(later), (Seen{10, 11})) << "its depth counts from the next message on";
  EXPECT_EQ(dropped(2), 3u);
}

TEST_F(DropOldest, ItsSuccessorGetsWhatWasLeftToIt) {
  {
    Consumer first = join_lossy(2);
    send_all(1, 9, 3000);
  }
  Result<void> sent;
  while (sent) sent = out().send(pattern(10, 10), {.deadline = Deadline::now(), .user = 10});
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  Consumer second = join_lossy(4);
  Seen seen = take_all(second);
  ASSERT_GE(seen.size(), 1u);
  EXPECT_GE(seen.front(), 8u);
  send(3000, 11);
  EXPECT_EQ(take_all(second), Seen{11});
  EXPECT_EQ(slots_held(), 0u);
}

TEST_F(DropOldest, ItComesAgain) {
  Consumer in = join_lossy(2);
  send_all(1, 5, 3000);
  out_.reset();
  EXPECT_EQ(take_all(in), (Seen{4, 5}));
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::peer_gone);
  out();
  ASSERT_TRUE(in.rejoin(soon()));
  send_all(1, 5, 3000);
  EXPECT_EQ(take_all(in), (Seen{4, 5}));
  EXPECT_EQ(in.explain().dropped, 3u);
}

TEST_F(DropOldest, TheEndComesBehindTheNewest) {
  Consumer in = join_lossy(2);
  send_all(1, 7, 20);
  EXPECT_EQ(out().close(Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(in.receive(soon())->info().user, 6u);
  EXPECT_EQ(in.receive(soon())->info().user, 7u);
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  EXPECT_TRUE(out().close(soon()));
}

// Both at full speed: each message is had once, whole and in order, or counted.
TEST_F(DropOldest, NothingIsTornOrTwiceUnderFullSpeed) {
  constexpr std::uint64_t kMessages = 4000;
  for (const unsigned depth : {1u, 4u}) {
    Consumer lossy = join_lossy(depth), all = join(SlowConsumer::block);
    std::thread sender([&] {
      for (std::uint64_t i = 1; i <= kMessages; ++i) send(i % 3 == 0 ? 30 : 2000, i);
      ASSERT_TRUE(out().close(soon()));
    });
    std::thread complete([&] {
      std::uint64_t count = 0;
      while (all.receive(soon())) ++count;
      EXPECT_EQ(count, kMessages);
    });
    std::uint64_t got = 0, newest = 0;
    std::vector<Message> held;
    for (;;) {
      auto message = lossy.receive(soon());
      if (!message) {
        EXPECT_EQ(message.error().code, Code::closed) << message.error().message;
        break;
      }
      EXPECT_GT(message->info().user, newest);
      newest = message->info().user;
      held.push_back(std::move(*message));
      ++got;
      for (const Message& one : held)
        EXPECT_TRUE(same(one.bytes(), pattern(one.bytes().size(), one.info().user)));
      if (held.size() >= depth) held.erase(held.begin());
    }
    sender.join();
    complete.join();
    held.clear();
    EXPECT_EQ(newest, kMessages);
    EXPECT_EQ(got + dropped(0), kMessages);
    EXPECT_EQ(slots_held(), 0u);
    out_.reset();
  }
}

TEST_F(DropOldest, AnEventLoopIsWoken) {
  Consumer in = join_lossy(2);
  const int descriptor = *in.event_descriptor();
  std::thread sender([&] {
    for (std::uint64_t i = 1; i <= 500; ++i) send(20, i);
    ASSERT_TRUE(out().close(soon()));
  });
  std::uint64_t newest = 0;
  for (bool ended = false; !ended;) {
    pollfd entry{descriptor, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "after " << newest;
    for (;;) {
      const auto message = in.receive(Deadline::now());
      if (!message) {
        ended = message.error().code == Code::closed;
        break;
      }
      newest = message->info().user;
    }
  }
  EXPECT_EQ(newest, 500u);
  sender.join();
}

}  // namespace
}  // namespace gantry
