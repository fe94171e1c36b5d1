#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_raw_consumer.hpp"
#include "core/channel/test_raw_producer.hpp"

// Deadlines are kept, whatever the other side does with what wakes us; and nobody sleeps on
// although what it waits for has come.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::RawProducer;
using test::soon;

/// Rings without end; gives up when nobody minds it for a time no wait here may take.
class Flood {
 public:
  explicit Flood(int sender) : thread_([this, sender] { run(sender); }) {}
  ~Flood() {
    enough_ = true;
    thread_.join();
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  [[nodiscard]] bool goes_on() const { return !gave_up_; }

 private:
  void run(int sender) {
    const Deadline patience = Deadline::after(std::chrono::seconds(20));
    const std::array<char, 4096> rings{};  // more at once than are drained at once
    while (!enough_ && !patience.passed())
      static_cast<void>(::send(sender, rings.data(), rings.size(), MSG_DONTWAIT));
    gave_up_ = !enough_;
  }
  std::atomic<bool> enough_{false}, gave_up_{false};
  std::thread thread_;
};

/// Rings that were sent and not drained.
int left_of(int sender) {
  int bytes = 0;
  EXPECT_EQ(::ioctl(sender, SIOCOUTQ, &bytes), 0);
  return bytes;
}

/// More rings than a late call may look at; whether it left some, and gave up in time.
template <class Call>
void expect_cut_short(int sender, Call call) {
  const std::array<char, 4096> rings{};
  while (::send(sender, rings.data(), rings.size(), MSG_DONTWAIT) > 0) continue;
  EXPECT_EQ(call(Deadline::now()), Code::timed_out);
  EXPECT_GT(left_of(sender), 0) << "it looked as long as there was something to look at";
}

Deadline shortly() {
  return Deadline::after(std::chrono::milliseconds(5));
}

class LateLooks : public testing::Test {
 protected:
  LateLooks() {
    options_.slots = 2;
    options_.spin = std::chrono::nanoseconds(0);
  }
  test::Joined join() { return test::join_by_hand(directory_.path()); }
  /// Until the producer sleeps, as it does for the first time after `before`.
  static void await_sleep(const test::Joined& consumer, std::uint32_t before) {
    while (consumer.producers_wait_flag() <= before || !test::others_sleep())
      std::this_thread::yield();
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

TEST_F(LateLooks, AFloodOfWakeUpsKeepsNoSenderBeyondItsDeadline) {
  auto out = *make_producer("frames", options_);
  const test::Joined hostile = join();
  for (std::uint64_t i = 1; i <= options_.slots; ++i) ASSERT_TRUE(out.send(pattern(8, i), soon()));
  const Flood flood(hostile.wake_sender.get());
  for (const Bytes size : {Bytes{8}, Bytes{5000}})
    EXPECT_EQ(out.send(pattern(size, 3), shortly()).error().code, Code::timed_out);
  EXPECT_EQ(out.loan(5000, shortly()).error().code, Code::timed_out);
  EXPECT_EQ(out.close(shortly()).error().code, Code::timed_out);
  EXPECT_TRUE(flood.goes_on());
}

TEST_F(LateLooks, RingsThatLieThereKeepNoSenderBeyondItsDeadline) {
  auto out = *make_producer("frames", options_);
  const test::Joined hostile = join();
  for (std::uint64_t i = 1; i <= options_.slots; ++i) ASSERT_TRUE(out.send(pattern(8, i), soon()));
  const int wake_sender = hostile.wake_sender.get();
  for (const Bytes size : {Bytes{8}, Bytes{5000}})
    expect_cut_short(wake_sender,
                     [&](Deadline now) { return out.send(pattern(size, 3), now).error().code; });
  expect_cut_short(wake_sender, [&](Deadline now) { return out.loan(5000, now).error().code; });
  expect_cut_short(wake_sender, [&](Deadline now) { return out.close(now).error().code; });
}

/// A consumer whose producer is the hostile one, with a message that never lands.
class LateLooksOfAReceiver : public LateLooks {
 protected:
  explicit LateLooksOfAReceiver(std::chrono::nanoseconds spin = {}) {
    options_.spin = spin;
    std::thread joining(
        [&] { in_.emplace(*Consumer::open("frames", consumer_options(options_), soon())); });
    pollfd entry{claim_.listener(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
    socket_.reset(::accept4(claim_.listener(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(receive_wire(socket_.get(), soon()));
    raw_.take_in(socket_);
    joining.join();
    const int descriptor = slab_.descriptor();
    RawProducer::say(socket_, PacketKind::slab, std::span(&descriptor, 1), 1, 8192);
    MessageRecord record = RawProducer::block(1, 0, 8192);
    record.header.kind |= kLanding;
    raw_.page().landing[0].begin(1);
    raw_.publish(1, record);
  }

  Claim claim_ = *Claim::take(directory_.path(), "frames");
  const Region slab_ = *Region::create(8192, "x");
  Fd socket_;
  RawProducer raw_;
  std::optional<Consumer> in_;
};

TEST_F(LateLooksOfAReceiver, AFloodOfWakeUpsKeepsItNotBeyondItsDeadline) {
  const Flood flood(raw_.consumer_wake());
  auto incoming = in_->receive_early(soon());
  ASSERT_TRUE(incoming) << incoming.error().message;
  EXPECT_EQ(incoming->next(shortly()).error().code, Code::timed_out);
  EXPECT_EQ(incoming->wait_for(10, shortly()).error().code, Code::timed_out);
  EXPECT_EQ(incoming->whole(shortly()).error().code, Code::timed_out);
  EXPECT_EQ(in_->receive(shortly()).error().code, Code::timed_out);
  EXPECT_TRUE(flood.goes_on());
}

TEST_F(LateLooksOfAReceiver, RingsThatLieThereKeepItNotBeyondItsDeadline) {
  auto incoming = in_->receive_early(soon());
  ASSERT_TRUE(incoming) << incoming.error().message;
  const int wake_sender = raw_.consumer_wake();
  expect_cut_short(wake_sender, [&](Deadline now) { return incoming->next(now).error().code; });
  expect_cut_short(wake_sender,
                   [&](Deadline now) { return incoming->wait_for(10, now).error().code; });
  expect_cut_short(wake_sender, [&](Deadline now) { return incoming->whole(now).error().code; });
  expect_cut_short(wake_sender, [&](Deadline now) { return in_->receive(now).error().code; });
}

// A sender tells of all but the last chunk of a small message without waking anybody, and may then
// stand still for long.
TEST_F(LateLooksOfAReceiver, WhatLandsWithoutARingIsSeen) {
  auto incoming = in_->receive_early(soon());
  ASSERT_TRUE(incoming) << incoming.error().message;
  std::atomic<Bytes> came{0};
  std::atomic<bool> has_begun{false};
  std::thread reading([&] {
    has_begun = true;
    const auto chunk = incoming->next();
    if (chunk) came = chunk->size();
  });
  while (!has_begun || !test::others_sleep()) std::this_thread::yield();
  raw_.page().landing[0].word.store(4096, std::memory_order_release);
  const Deadline patience = Deadline::after(std::chrono::seconds(20));
  while (came == 0 && !patience.passed()) std::this_thread::yield();
  EXPECT_EQ(came, 4096u) << "it has to look by itself";
  EXPECT_EQ(::send(raw_.consumer_wake(), "x", 1, MSG_DONTWAIT), 1);
  reading.join();
}

/// The same, for a consumer that polls for ever.
class LateLooksOfAPoller : public LateLooksOfAReceiver {
 protected:
  LateLooksOfAPoller() : LateLooksOfAReceiver(std::chrono::nanoseconds::max()) {}
};

// There is no longer time to add to. -fsanitize=undefined tells of a sum; other builds wrap.
TEST_F(LateLooksOfAPoller, WhatLandsWithoutARingIsSeen) {
  auto incoming = in_->receive_early(soon());
  ASSERT_TRUE(incoming) << incoming.error().message;
  std::atomic<bool> has_begun{false};
  std::thread landing([&] {
    while (!has_begun) std::this_thread::yield();
    raw_.page().landing[0].word.store(4096, std::memory_order_release);
  });
  has_begun = true;
  const auto chunk = incoming->next(soon());
  landing.join();
  ASSERT_TRUE(chunk) << to_string(chunk.error());
  EXPECT_EQ(chunk->size(), 4096u);
}

/// All of a large window has landed, of a message that never ends.
class LateLooksOfAStream : public LateLooksOfAReceiver {
 protected:
  static constexpr Bytes kWindow = 4 * kMiB;
  explicit LateLooksOfAStream(std::uint32_t chunk = kLeastChunk, bool is_taken = true) {
    std::memset(window_.data(), 1, kWindow);  // no holes
    const int descriptor = window_.descriptor();
    RawProducer::say(socket_, PacketKind::slab, std::span(&descriptor, 1), 2, kWindow);
    const Place place{.offset = 0,
                      .bytes = 2 * kWindow,
                      .slab = 2,
                      .chunk_bytes = chunk,
                      .window_bytes = kWindow};
    MessageRecord record = RawProducer::block(2, 1, 0);
    record.header.number = 2;
    record.header.kind |= kLanding | kStreamed;
    std::memcpy(record.body.data(), &place, sizeof place);
    raw_.page().landing[1].begin(2);
    raw_.publish(2, record);
    EXPECT_TRUE(in_->receive_early(soon()));  // the first one
    if (!is_taken) return;
    second_.emplace(in_->receive_early(soon()));
    if (*second_) incoming_.emplace(std::move(**second_));
  }
  std::uint64_t passed() {
    return chunks_passed(raw_.consumer_page().passed[1].load(std::memory_order_seq_cst), 2);
  }

  const Region window_ = *Region::create(kWindow, "x");
  std::optional<Result<Incoming>> second_;
  std::optional<Incoming> incoming_;
};

// Chunk by chunk it would take longer than all bytes do.
class LateLooksOfTinyChunks : public LateLooksOfAStream {
 protected:
  LateLooksOfTinyChunks() : LateLooksOfAStream(kLeastChunk / 2) {}
};

TEST_F(LateLooksOfTinyChunks, TheyAreNotBelieved) {
  EXPECT_EQ(second_->error().code, Code::peer_misbehaved);
  EXPECT_THAT(second_->error().message, testing::HasSubstr("chunk"));
}

TEST_F(LateLooksOfAStream, WhatHasLandedKeepsItNotBeyondItsDeadline) {
  raw_.page().landing[1].word = kWindow;
  std::vector<std::byte> all(2 * kWindow);
  EXPECT_EQ(incoming_->into(all, Deadline::now()).error().code, Code::timed_out);
  EXPECT_GT(passed(), 0u);
  EXPECT_LT(passed(), kWindow / kLeastChunk);
}

/// The same, for a loop that takes it by receive_into().
class LateLooksOfALoop : public LateLooksOfAStream {
 protected:
  LateLooksOfALoop() : LateLooksOfAStream(kLeastChunk, false) {}
  bool is_woken() const {
    pollfd entry{descriptor_, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }
  Code receive() { return in_->receive_into(all_, Deadline::now()).error().code; }

  std::vector<std::byte> all_ = std::vector<std::byte>(2 * kWindow);
  int descriptor_ = *in_->event_descriptor();
};

// It is promised to hear of what it was not told: of the chunks that a call left, too, since nobody
// rings for them again.
TEST_F(LateLooksOfALoop, IsWokenByWhatACallLeft) {
  EXPECT_EQ(receive(), Code::timed_out);
  EXPECT_FALSE(is_woken());
  raw_.page().landing[1].word = kWindow;
  constexpr std::uint64_t kAll = kWindow / kLeastChunk;
  for (std::uint64_t before = 0; passed() < kAll; before = passed()) {
    EXPECT_EQ(receive(), Code::timed_out);
    ASSERT_GT(passed(), before);
    EXPECT_TRUE(passed() == kAll || is_woken()) << passed();
  }
  EXPECT_EQ(receive(), Code::timed_out);
  EXPECT_FALSE(is_woken()) << "nothing is left to look at";
}

TEST_F(LateLooksOfAStream, WhatLandsBeyondTheWindowIsNotBelieved) {
  raw_.page().landing[1].word = kWindow + 1;
  std::vector<std::byte> all(2 * kWindow);
  const auto refused = incoming_->into(all, Deadline::now());
  EXPECT_EQ(refused.error().code, Code::peer_misbehaved);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("land"));
}

// A mark of how far a consumer has come is no wake-up: who takes a small message looks at the ring
// first, finds it not full, and goes about its business. The producer's first sleep is short; a
// mark that came only behind that tells nothing, and is tried again.
TEST_F(LateLooks, AMarkThatComesWhenTheProducerSleepsIsSeen) {
  auto out = *make_producer("frames", options_);
  test::Joined consumer = join();
  for (std::uint64_t i = 1; i <= options_.slots; ++i) ASSERT_TRUE(out.send(pattern(8, i), soon()));
  bool came_in_time = false;
  for (std::uint64_t taken = 1; !came_in_time; ++taken) {
    const std::uint32_t before = consumer.producers_wait_flag();
    std::atomic<bool> sent{false};
    std::thread sending([&] { sent = out.send(pattern(8, 3)).has_value(); });
    await_sleep(consumer, before);
    consumer.impostor.page().taken.store(taken, std::memory_order_seq_cst);
    came_in_time = consumer.producers_wait_flag() == before + 1;
    const Deadline patience = Deadline::after(std::chrono::seconds(20));
    while (came_in_time && !sent && !patience.passed()) std::this_thread::yield();
    EXPECT_TRUE(!came_in_time || sent) << "it has to be woken";
    static_cast<void>(::send(consumer.wake_sender.get(), "x", 1, MSG_DONTWAIT));
    sending.join();
  }
}

}  // namespace
}  // namespace gantry
