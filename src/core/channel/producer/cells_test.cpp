#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "core/channel/test_gated_engine.hpp"

// Payloads that go beside their records: what every way to receive makes of them, and who else may
// have them.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

constexpr Bytes kCell = PayloadOptions::kMaxCellBytes;

class Cells : public testing::Test {
 protected:
  Cells() { options_.cell_bytes = kCell; }
  Producer& out() {
    if (!out_) out_.emplace(*make_producer("frames", options_));
    return *out_;
  }
  Consumer join(SlowConsumer policy = SlowConsumer::block, unsigned depth = 0) {
    out();
    ConsumerOptions options = consumer_options(options_);
    options.when_slow = policy;
    options.depth = depth;
    auto in = Consumer::open("frames", options, soon());
    EXPECT_TRUE(in) << to_string(in.error());
    return *std::move(in);
  }
  void send(Bytes size, std::uint64_t seed) {
    const auto sent = out().send(pattern(size, seed), {.deadline = soon(), .user = seed});
    ASSERT_TRUE(sent) << to_string(sent.error());
  }
  static void expect(const Message& message, Bytes size, std::uint64_t seed) {
    EXPECT_EQ(message.info().user, seed);
    EXPECT_TRUE(same(message.bytes(), pattern(size, seed))) << size << " bytes of " << seed;
    const auto at = reinterpret_cast<std::uintptr_t>(message.bytes().data());
    EXPECT_TRUE(size <= 64 || at % 64 == 0) << size << " bytes lie as those of a pool do";
  }
  static void receive(Consumer& in, Bytes size, std::uint64_t seed) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    expect(*message, size, seed);
  }
  [[nodiscard]] unsigned slots_held() { return out().explain().status.slots_held; }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
};

TEST_F(Cells, EverySizeArrivesAndHoldsNoSlot) {
  Consumer in = join();
  for (Bytes size = 0; size <= kCell; size += size < 130 ? 1 : 61) {
    send(size, size + 1);
    EXPECT_EQ(slots_held(), 0u) << size;
    receive(in, size, size + 1);
  }
  send(kCell, 1);
  receive(in, kCell, 1);
  send(kCell + 1, 2);
  EXPECT_EQ(slots_held(), 1u) << "the first that is too large";
  receive(in, kCell + 1, 2);
}

TEST_F(Cells, WhatIsSmallerThanTheLimitGoesThere) {
  options_.cell_bytes = 1000;
  Consumer in = join();
  send(1000, 1);
  EXPECT_EQ(slots_held(), 0u);
  send(1001, 2);
  EXPECT_EQ(slots_held(), 1u);
  receive(in, 1000, 1);
  receive(in, 1001, 2);
  options_.cell_bytes = kCell + 1;
  const auto refused = Producer::open("more", options_, std::make_shared<test::PlainEngine>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
}

// All are sent before the first is taken, so each must have a place of its own.
TEST_F(Cells, AsManyAsThereAreCreditsWaitUnread) {
  options_.slots = ProducerOptions::kMaxSlots;
  Consumer in = join();
  for (std::uint64_t round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < options_.slots; ++i) send(3000 + round + i, round * 100 + i);
    EXPECT_EQ(out().send(pattern(3000, 1), Deadline::now()).error().code, Code::timed_out);
    for (std::uint64_t i = 0; i < options_.slots; ++i)
      receive(in, 3000 + round + i, round * 100 + i);
  }
}

TEST_F(Cells, WhoKeepsThemHoldsNobodyUp) {
  options_.slots = 2;
  std::vector<Message> kept;
  {
    Consumer in = join();
    for (std::uint64_t i = 0; i < 300; ++i) {
      send(100 + i, i);
      kept.push_back(*in.receive(soon()));
    }
  }
  out_.reset();
  for (std::uint64_t i = 0; i < kept.size(); ++i) expect(kept[i], 100 + i, i);
}

// The ring is full now and then; slots, which may be kept for ever, are not what to wait for.
TEST_F(Cells, ABurstToWhoKeepsThemWaitsForTheRingAlone) {
  options_.slots = 4;
  Consumer in = join();
  std::vector<Message> slots;
  for (std::uint64_t i = 0; i < options_.slots; ++i) {
    send(kCell + 1, i);
    slots.push_back(*in.receive(soon()));
  }
  for (const bool is_async : {false, true}) {
    std::thread sender([&] {
      std::vector<std::vector<std::byte>> payloads;
      std::vector<Ticket> tickets;
      for (std::uint64_t i = 0; i < 60; ++i) {
        payloads.push_back(pattern(1000 + i, i));
        const SendOptions options{.deadline = soon(), .user = i};
        if (is_async)
          tickets.push_back(*out().send_async(payloads.back(), options));
        else
          ASSERT_TRUE(out().send(payloads.back(), options));
      }
      for (const Ticket ticket : tickets) {
        const auto sent = out().wait(ticket, soon());
        ASSERT_TRUE(sent) << to_string(sent.error());
      }
    });
    std::vector<Message> kept;
    for (std::uint64_t i = 0; i < 60; ++i) {
      auto message = in.receive(soon());
      ASSERT_TRUE(message) << to_string(message.error());
      kept.push_back(std::move(*message));
    }
    sender.join();
    for (std::uint64_t i = 0; i < 60; ++i) expect(kept[i], 1000 + i, i);
  }
  const auto late = out().send(pattern(kCell + 1, 1), Deadline::now());
  EXPECT_EQ(late.error().code, Code::timed_out) << "all slots are kept";
}

TEST_F(Cells, AMessageGivenBackOnAnotherThreadMakesRoomForTheNext) {
  Consumer in = join();
  for (std::uint64_t i = 0; i < 500; ++i) {
    send(2000, i);
    std::optional<Message> message = *in.receive(soon());
    std::thread([&] {
      expect(*message, 2000, i);
      message.reset();
    }).join();
  }
}

TEST_F(Cells, EveryWayToReceiveHasTheSameBytes) {
  Consumer in = join();
  for (std::uint64_t i = 1; i <= 5; ++i) send(777 * i, i);
  std::vector<std::byte> into(777);
  const auto copied = in.receive_into(into, soon());
  ASSERT_TRUE(copied) << to_string(copied.error());
  EXPECT_EQ(copied->bytes, 777u);
  EXPECT_TRUE(same(into, pattern(777, 1)));
  auto early = in.receive_early(soon());
  ASSERT_TRUE(early);
  auto whole = early->whole(soon());
  ASSERT_TRUE(whole) << to_string(whole.error());
  expect(*whole, 777 * 2, 2);
  std::vector<Consumer> ends;
  ends.push_back(std::move(in));
  auto any = Consumer::receive_any(ends, soon());
  ASSERT_TRUE(any);
  expect(any->message, 777 * 3, 3);
  std::vector<std::byte> small(100);
  EXPECT_EQ(ends[0].receive_into(small, soon()).error().code, Code::invalid_argument);
  receive(ends[0], 777 * 4, 4);
  receive(ends[0], 777 * 5, 5);
}

TEST_F(Cells, BesideRecordsSlotsAndWindowsTheOrderStays) {
  Consumer in = join();
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < 600; ++i) send((i * i * 37) % (i % 5 == 0 ? 90'000 : 6'000), i);
    ASSERT_TRUE(out().close(soon()));
  });
  for (std::uint64_t i = 0; i < 600; ++i)
    receive(in, (i * i * 37) % (i % 5 == 0 ? 90'000 : 6'000), i);
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  sender.join();
}

TEST_F(Cells, ASuccessorGetsWhatWasNotRead) {
  options_.slots = 8;
  std::optional<Consumer> first(join());
  for (std::uint64_t i = 1; i <= 6; ++i) send(i * 600, i);
  receive(*first, 600, 1);
  first.reset();
  Consumer second = join();
  send(50, 7);
  send(4000, 8);
  for (std::uint64_t i = 2; i <= 6; ++i) receive(second, i * 600, i);
  receive(second, 50, 7);
  receive(second, 4000, 8);
}

// Each has its own places: what one leaves goes through all the others.
TEST_F(Cells, AChainOfSuccessorsLosesNothing) {
  options_.slots = 16;
  std::uint64_t sent = 0, read = 0;
  for (int turn = 0; turn < 20; ++turn) {
    Consumer in = join();
    while (sent - read < 14) {
      send(100 + 97 * (sent % 40), sent);
      ++sent;
    }
    for (int i = 0; i < 5; ++i, ++read) receive(in, 100 + 97 * (read % 40), read);
  }
}

TEST_F(Cells, TheSuccessorOfOneThatWasKilledHasThemWhole) {
  out();
  const pid_t child = ::fork();
  if (child == 0) {
    Consumer in = *Consumer::open("frames", consumer_options(options_), soon());
    ::pause();
  }
  for (std::uint64_t i = 1; i <= 5; ++i) send(i * 800, i);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  while (!out().explain().status.consumers.empty()) std::this_thread::yield();
  Consumer in = join();
  for (std::uint64_t i = 1; i <= 5; ++i) receive(in, i * 800, i);
}

TEST_F(Cells, AFifthReaderASlowOneAndAHistoryTakeSlots) {
  options_.consumers = 5;
  {
    std::vector<Consumer> all;
    for (int i = 0; i < 4; ++i) all.push_back(join());
    send(500, 1);
    EXPECT_EQ(slots_held(), 0u) << "one copy for four";
    std::optional<Consumer> fifth(join());
    send(500, 2);
    EXPECT_EQ(slots_held(), 1u);
    for (Consumer& one : all) {
      receive(one, 500, 1);
      receive(one, 500, 2);
    }
    receive(*fifth, 500, 2);
    fifth.reset();
    while (out().explain().status.consumers.size() == 5) std::this_thread::yield();
    send(500, 3);
    EXPECT_EQ(slots_held(), 0u) << "the fifth has left";
    for (Consumer& one : all) receive(one, 500, 3);
  }
  out_.reset();
  {
    Consumer lossy = join(SlowConsumer::drop_oldest);
    send(500, 2);
    EXPECT_EQ(slots_held(), 1u);
    receive(lossy, 500, 2);
    Consumer second = join();
    send(500, 3);
    EXPECT_EQ(slots_held(), 1u);
    receive(lossy, 500, 3);
    receive(second, 500, 3);
  }
  out_.reset();
  options_.history = 2;
  Consumer in = join();
  send(500, 3);
  receive(in, 500, 3);
  Consumer late = join();
  receive(late, 500, 3);
}

// Each reads at its own pace, and each place is written anew only behind the slowest.
TEST_F(Cells, FourReadersHaveThemOnceEachInOrder) {
  options_.consumers = 4;
  for (const unsigned slots : {1u, 8u, 64u}) {
    options_.slots = slots;
    out_.reset();
    std::vector<Consumer> all;
    for (int i = 0; i < 4; ++i) all.push_back(join());
    std::vector<std::thread> readers;
    for (std::size_t i = 0; i < 4; ++i)
      readers.emplace_back([&, i] {
        for (std::uint64_t n = 0; n < 500; ++n) {
          receive(all[i], 65 + (n * 31) % 4000, n);
          if (n % 16 == i * 4) std::this_thread::yield();
        }
        EXPECT_EQ(all[i].receive(soon()).error().code, Code::closed);
      });
    for (std::uint64_t n = 0; n < 500; ++n) send(65 + (n * 31) % 4000, n);
    EXPECT_EQ(slots_held(), 0u);
    ASSERT_TRUE(out().close(soon()));
    for (std::thread& one : readers) one.join();
  }
}

// A newcomer among them gets what comes from then on; who leaves takes nothing along.
TEST_F(Cells, ReadersUpToSixComeAndGoUnderWay) {
  options_.consumers = 6;
  Consumer in = join();
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int thread = 0; thread < 5; ++thread)
    others.emplace_back([&, thread] {
      for (int i = 0; i < 20; ++i) {
        Consumer other = *Consumer::open("frames", consumer_options(options_), soon());
        std::uint64_t last = 0;
        for (int count = 0; count < 1 + (i + thread) % 5; ++count) {
          const auto message = other.receive(soon());
          ASSERT_TRUE(message) << to_string(message.error());
          EXPECT_TRUE(last == 0 || message->sequence() == last + 1);
          last = message->sequence();
          expect(*message, 1500, message->info().user);
        }
      }
    });
  std::uint64_t sent = 0;
  std::thread sender([&] {
    while (!done) send(1500, sent++ % 256);
    ASSERT_TRUE(out().close(soon()));
  });
  std::thread waiter([&] {
    for (std::thread& one : others) one.join();
    done = true;
  });
  std::uint64_t count = 0;
  for (;; ++count) {
    const auto message = in.receive(soon());
    if (!message) break;
    expect(*message, 1500, count % 256);
  }
  sender.join();
  waiter.join();
  EXPECT_EQ(count, sent);
}

// What is kept for it is never written again; what comes later takes slots.
TEST_F(Cells, ANewcomerThatDropsGetsThemToo) {
  options_.slots = 64;
  for (const std::uint64_t unread : {0u, 5u}) {
    out_.reset();
    std::optional<Consumer> first(join());
    for (std::uint64_t i = 1; i <= 60; ++i) send(900 + i, i);
    first.reset();
    Consumer lossy = join(SlowConsumer::drop_oldest, 4);
    for (std::uint64_t i = 61; i <= 60 + unread; ++i) send(900 + i, i);
    std::uint64_t next = unread == 0 ? 1 : 62;  // those before are taken back
    for (; next <= 60 + unread; ++next) receive(lossy, 900 + next, next);
    for (; next <= 200; ++next) {
      send(900 + next, next);
      receive(lossy, 900 + next, next);
    }
  }
}

TEST_F(Cells, SecondReadersComeAndGoUnderWay) {
  options_.consumers = 2;
  Consumer in = join();
  std::atomic<bool> done{false};
  std::thread others([&] {
    for (int i = 0; i < 50; ++i) {
      Consumer other = *Consumer::open("frames", consumer_options(options_), soon());
      const auto message = other.receive(soon());
      ASSERT_TRUE(message) << to_string(message.error());
      expect(*message, 1500, message->info().user);
    }
    done = true;
  });
  std::uint64_t sent = 0;
  std::thread sender([&] {
    while (!done) send(1500, sent++ % 256);
    ASSERT_TRUE(out().close(soon()));
  });
  std::uint64_t count = 0;
  for (;; ++count) {
    const auto message = in.receive(soon());
    if (!message) break;
    expect(*message, 1500, count % 256);
  }
  sender.join();
  others.join();
  EXPECT_EQ(count, sent);
}

TEST_F(Cells, AMessageThatIsForwardedIsCopied) {
  Consumer in = join();
  send(2222, 1);
  auto message = in.receive(soon());
  ASSERT_TRUE(message);
  ProducerOptions further = options_;
  Producer on = *make_producer("further", further);
  Consumer end = *Consumer::open("further", consumer_options(further), soon());
  ASSERT_TRUE(on.send(Draft{}.forward(std::move(*message)), {.deadline = soon()}));
  const auto arrived = end.receive(soon());
  ASSERT_TRUE(arrived) << to_string(arrived.error());
  EXPECT_TRUE(same(arrived->bytes(), pattern(2222, 1)));
}

TEST_F(Cells, APayloadThatCannotBeReadIsRefusedAndTheNextGoes) {
  Consumer in = join();
  auto* pages = static_cast<std::byte*>(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(::munmap(pages + 4096, 4096), 0);
  const auto refused = out().send(ConstByteSpan(pages + 3000, 3000), soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_NE(refused.error().message.find("frames"), std::string::npos) << refused.error().message;
  send(3000, 5);
  receive(in, 3000, 5);
  ASSERT_EQ(::munmap(pages, 4096), 0);
}

TEST_F(Cells, WhatIsExplainedHappens) {
  options_.consumers = 6;
  std::vector<Consumer> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(join());
    const auto text = out().explain(3000).text();
    EXPECT_NE(text.find("beside their record"), std::string::npos) << text;
    EXPECT_EQ(out().explain(kCell + 1).text().find("beside their record"), std::string::npos);
  }
  all.push_back(join());
  const auto why = out().explain(3000).text();
  EXPECT_EQ(why.find("beside their record"), std::string::npos);
  EXPECT_NE(why.find("no history: there are 5"), std::string::npos) << why;
  EXPECT_EQ(out().explain(kCell + 1).text().find("no history"), std::string::npos);
  all.clear();
  while (!out().explain().status.consumers.empty()) std::this_thread::yield();
  const Consumer slow = join(SlowConsumer::drop_newest);
  const auto policy = out().explain(3000).text();
  EXPECT_NE(policy.find("is drop_newest"), std::string::npos) << policy;
}

// More than there are buffers that are used again.
TEST_F(Cells, WhatAReaderKeepsIsCounted) {
  Consumer in = join();
  EXPECT_EQ(in.explain().copies_held, 0u);
  std::vector<Message> kept;
  for (std::size_t i = 0; i < 70; ++i) {
    send(3000, static_cast<std::uint64_t>(i));
    kept.push_back(must(in.receive(soon())));
    EXPECT_EQ(in.explain().copies_held, i + 1);
  }
  EXPECT_NE(in.explain().text().find("besides 70 messages copied out"), std::string::npos);
  while (!kept.empty()) {
    kept.pop_back();
    EXPECT_EQ(in.explain().copies_held, kept.size());
  }
}

TEST_F(Cells, TwoThreadsThatSendAtOnceAreAnError) {
  test::CopyGate gate;
  out_.emplace(*Producer::open("frames", options_, std::make_shared<test::GatedEngine>(gate)));
  Consumer in = join();
  const auto payload = pattern(1000, 1);
  auto first =
      std::async(std::launch::async, [&] { return out_->send(payload, {.deadline = soon()}); });
  gate.await_first();
  EXPECT_TRUE(out_->send(pattern(10, 2), soon())) << "by another thread";
  gate.open();
  const Result<void> sent = first.get();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().message,
            "channel 'frames': two threads sent at once; a Producer is used by one thread at a "
            "time");
}

}  // namespace
}  // namespace gantry
