#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>

#include "core/base/test_sanitizer.hpp"
#include "core/channel/test_raw_consumer.hpp"

// Consumer::look(): messages that are read where they lie, and what may happen meanwhile.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

constexpr Bytes kCell = PayloadOptions::kMaxCellBytes;
constexpr std::uint64_t kMoreThanPlaces = 3 * kBesidePlaces;

class Looks : public testing::Test {
 protected:
  Looks() {
    options_.cell_bytes = kCell;
    options_.consumers = 6;
  }
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
  void send(Bytes size, std::uint64_t seed, SendMode mode = SendMode::automatic) {
    const auto sent =
        out().send(pattern(size, seed), {.deadline = soon(), .mode = mode, .user = seed});
    ASSERT_TRUE(sent) << to_string(sent.error());
  }
  static bool is_as_sent(const Message& message, Bytes size) {
    return same(message.bytes(), pattern(size, message.info().user));
  }
  static void receive(Consumer& in, Bytes size, std::uint64_t seed) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_EQ(message->info().user, seed);
    EXPECT_TRUE(is_as_sent(*message, size)) << size << " bytes of " << seed;
  }
  static void look(Consumer& in, Bytes size, std::uint64_t seed) {
    int calls = 0;
    const auto looked = in.look(
        [&](const Message& message) {
          ++calls;
          EXPECT_EQ(message.info().user, seed);
          EXPECT_TRUE(is_as_sent(message, size)) << size << " bytes of " << seed;
        },
        soon());
    ASSERT_TRUE(looked) << to_string(looked.error());
    EXPECT_EQ(calls, 1);
  }
  /// So that all places are written again, if they may be.
  void send_on(Consumer& fast, std::uint64_t first, std::uint64_t count = kMoreThanPlaces) {
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      send(3000, seed);
      receive(fast, 3000, seed);
    }
  }
  [[nodiscard]] unsigned slots_held() { return out().explain().status.slots_held; }
  [[nodiscard]] std::size_t departed() { return out().explain().status.departed.size(); }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
};

TEST_F(Looks, EverySizeIsThereAndGivenBack) {
  Consumer in = join();
  for (Bytes size = 0; size <= kCell; size += size < 130 ? 1 : 61) {
    send(size, size + 1);
    look(in, size, size + 1);
  }
  for (const Bytes size : {kCell + 1, Bytes{70'000}, Bytes{3'000'000}})
    for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::immutable}) {
      send(size, size, mode);
      EXPECT_EQ(slots_held(), 1u);
      look(in, size, size);
      EXPECT_EQ(slots_held(), 0u) << size;
    }
  std::thread sender([&] { send(3'000'000, 7, SendMode::streamed); });
  look(in, 3'000'000, 7);
  sender.join();
}

// The same places come round, and no private buffer is used.
TEST_F(Looks, APayloadBesideItsRecordIsNotCopied) {
  Consumer in = join();
  std::vector<const std::byte*> places;
  for (std::uint64_t i = 0; i < 2 * kBesidePlaces; ++i) {
    send(500 + i, i);
    const auto looked = in.look(
        [&](const Message& message) {
          places.push_back(message.bytes().data());
          EXPECT_FALSE(message.is_immutable()) << "its sender can write it";
          EXPECT_EQ(message.segments(), 1u);
        },
        soon());
    ASSERT_TRUE(looked);
  }
  EXPECT_EQ(in.explain().copies_held, 0u);
  EXPECT_EQ(in.metrics().copied_bytes[static_cast<std::size_t>(CopyEngine::inline_)], 0u);
  for (std::size_t i = 0; i < kBesidePlaces; ++i) {
    EXPECT_EQ(places[i], places[i + kBesidePlaces]);
    EXPECT_EQ(places[i], places[0] + i * kBesideBytes);
  }
}

TEST_F(Looks, PartsAndTensorsAreWhatWasSent) {
  Consumer in = join();
  const auto one = pattern(64, 1), two = pattern(9000, 2);
  const Tensor tensor = Tensor::dense({2, 32, 1}, std::vector<std::int64_t>{4, 4});
  ASSERT_TRUE(out().send(Draft{}.copy(one, tensor), {.deadline = soon()}));
  ASSERT_TRUE(out().send(Draft{}.copy(one, tensor).copy(two), {.deadline = soon()}));
  for (const std::size_t parts : {1u, 2u}) {
    const auto looked = in.look(
        [&](const Message& message) {
          ASSERT_EQ(message.segments(), parts);
          EXPECT_TRUE(same(message.segment(0).bytes, one));
          EXPECT_EQ(message.segment(0).tensor, tensor);
          EXPECT_TRUE(parts == 1 || same(message.segment(1).bytes, two));
        },
        soon());
    ASSERT_TRUE(looked);
  }
  EXPECT_EQ(slots_held(), 0u);
}

TEST_F(Looks, AMessageThatLandsIsWaitedFor) {
  Consumer in = join();
  const auto payload = pattern(100'000, 1);
  Block block = must(out().pool().allocate(payload.size()));
  std::ranges::copy(payload, block.bytes().begin());
  auto early =
      must(out().send_early(Draft{}.move(std::move(block), payload.size()), {.deadline = soon()}));
  const auto never = [](const Message&) { ADD_FAILURE() << "it has not landed"; };
  EXPECT_EQ(in.look(never, Deadline::now()).error().code, Code::timed_out);
  ASSERT_TRUE(early.land(payload.size()));
  const auto looked =
      in.look([&](const Message& message) { EXPECT_TRUE(same(message.bytes(), payload)); }, soon());
  ASSERT_TRUE(looked) << to_string(looked.error());
}

TEST_F(Looks, AnErrorCallsNobody) {
  Consumer in = join();
  const auto never = [](const Message&) { ADD_FAILURE() << "there is no message"; };
  EXPECT_EQ(in.look(never, Deadline::now()).error().code, Code::timed_out);
  std::thread closer([&] { EXPECT_TRUE(out().close(soon())); });
  EXPECT_EQ(in.look(never, soon()).error().code, Code::closed);
  closer.join();
  Consumer moved = std::move(in);
  EXPECT_EQ(in.look(never, soon()).error().code, Code::invalid_argument);  // NOLINT: that is tested
}

TEST_F(Looks, WhatTheFunctionThrowsGoesOnAndTheMessageIsGivenBack) {
  Consumer in = join();
  for (const Bytes size : {Bytes{10}, Bytes{1000}, Bytes{100'000}}) {
    for (int times = 0; times < 100; ++times) {
      send(size, 1);
      EXPECT_THROW(static_cast<void>(
                       in.look([](const Message&) { throw std::runtime_error("it"); }, soon())),
                   std::runtime_error);
      send(size, 2);
      EXPECT_THROW(
          static_cast<void>(in.look([](const Message&) { throw std::bad_alloc(); }, soon())),
          std::bad_alloc)
          << "not taken for ours";
    }
    EXPECT_EQ(slots_held(), 0u);
    send(size, 3);
    look(in, size, 3);
  }
}

TEST_F(Looks, NothingElseIsTakenMeanwhile) {
  Consumer in = join();
  std::vector<std::byte> buffer(200'000);
  for (const Bytes size : {Bytes{10}, Bytes{1000}, Bytes{100'000}}) {
    send(size, 1);
    send(size, 2);
    const auto looked = in.look(
        [&](const Message& message) {
          std::vector<Message> into(1);
          const auto look_again = in.look([](const Message&) { FAIL(); }, soon());
          EXPECT_EQ(look_again.error().code, Code::busy);
          const auto received = in.receive(soon());
          EXPECT_EQ(received.error().code, Code::busy);
          EXPECT_NE(received.error().message.find("frames"), std::string::npos);
          EXPECT_EQ(in.receive_batch(into, soon()).error().code, Code::busy);
          EXPECT_EQ(in.receive_early(soon()).error().code, Code::busy);
          EXPECT_EQ(in.receive_into(buffer, soon()).error().code, Code::busy);
          EXPECT_EQ(Consumer::receive_any({&in, 1}, soon()).error().code, Code::busy);
          EXPECT_EQ(in.rejoin(soon()).error().code, Code::busy);
          EXPECT_EQ(in.explain().unread, 1u);
          EXPECT_TRUE(is_as_sent(message, size));
        },
        soon());
    ASSERT_TRUE(looked) << to_string(looked.error());
    receive(in, size, 2);
  }
}

// The looked-at message counts as taken: as many as there are credits go meanwhile.
TEST_F(Looks, TheProducerGoesOnMeanwhile) {
  options_.slots = 64;
  Consumer in = join(), other = join();
  for (std::uint64_t round = 0; round < 4; ++round) {
    send(1000, 100);
    receive(other, 1000, 100);
    const auto looked = in.look(
        [&](const Message& message) {
          for (std::uint64_t i = 0; i < options_.slots; ++i) {
            send(1000, i);
            receive(other, 1000, i);
          }
          EXPECT_EQ(out().send(pattern(1000, 1), Deadline::now()).error().code, Code::timed_out);
          EXPECT_EQ(slots_held(), 0u);
          EXPECT_TRUE(is_as_sent(message, 1000));
        },
        soon());
    ASSERT_TRUE(looked);
    for (std::uint64_t i = 0; i < options_.slots; ++i) look(in, 1000, i);
  }
}

// What it looks at is kept for it until it returns, whoever else reads on.
TEST_F(Looks, TheFunctionMayDestroyItsConsumer) {
  Consumer fast = join();
  for (const Bytes size : {Bytes{10}, Bytes{1000}, Bytes{100'000}}) {
    std::optional<Consumer> in(join());
    send(size, 1);
    receive(fast, size, 1);
    const auto looked = in->look(
        [&](const Message& message) {
          in.reset();
          while (out().explain().status.consumers.size() != 1) std::this_thread::yield();
          send_on(fast, 2);
          EXPECT_TRUE(is_as_sent(message, size));
          EXPECT_EQ(departed(), size <= Message::kInlineBytes ? 0u : 1u);
        },
        soon());
    ASSERT_TRUE(looked) << to_string(looked.error());
    EXPECT_EQ(departed(), 0u) << size;
  }
}

// Its place is no memory that could come back: a send for which the caller's own blocks leave no
// room fails at once.
TEST_F(Looks, WhoLeftInALookHoldsNoMemoryToWaitFor) {
  options_.pool = {.slab_bytes = Bytes{1} << 20, .budget_bytes = Bytes{4} << 20};
  Consumer fast = join();
  std::optional<Consumer> in(join());
  const auto mine = out().pool().allocate(Bytes{3} << 20);
  ASSERT_TRUE(mine) << to_string(mine.error());
  send(1000, 1);
  receive(fast, 1000, 1);
  const auto looked = in->look(
      [&](const Message&) {
        in.reset();
        while (out().explain().status.consumers.size() != 1) std::this_thread::yield();
        EXPECT_EQ(departed(), 1u);
        const auto large = out().send(pattern(Bytes{2} << 20, 2), soon());
        EXPECT_EQ(large.error().code, Code::out_of_memory) << to_string(large.error());
      },
      soon());
  ASSERT_TRUE(looked) << to_string(looked.error());
}

TEST_F(Looks, TheFunctionMayMoveItsConsumer) {
  Consumer in = join();
  std::optional<Consumer> moved;
  send(1000, 1);
  send(1000, 2);
  const auto looked = in.look(
      [&](const Message& message) {
        moved.emplace(std::move(in));
        EXPECT_EQ(moved->receive(soon()).error().code, Code::busy);
        EXPECT_TRUE(is_as_sent(message, 1000));
      },
      soon());
  ASSERT_TRUE(looked);
  look(*moved, 1000, 2);
}

// Nobody but the reader wakes the producer, which sleeps for each credit.
TEST_F(Looks, ASleepingProducerIsWokenWhateverWayTheLastWasTaken) {
  for (const unsigned slots : {1u, 2u, 8u}) {
    for (const Bytes size : {Bytes{10}, Bytes{1000}, Bytes{5000}}) {
      out_.reset();
      options_.slots = slots;
      options_.spin = {};
      Consumer in = join(), other = join();
      std::thread sender([&] {
        for (std::uint64_t i = 0; i < 300; ++i) send(size, i);
      });
      std::thread beside([&] {
        for (std::uint64_t i = 0; i < 300; ++i) look(other, size, i);
      });
      for (std::uint64_t i = 0; i < 300; ++i) {
        if (i % 3 == 0) {
          receive(in, size, i);
          continue;
        }
        const auto looked = in.look(
            [&](const Message& message) {
              EXPECT_EQ(message.info().user, i);
              EXPECT_TRUE(i % 2 == 0 || in.receive(Deadline::now()).error().code == Code::busy);
              EXPECT_EQ(message.is_immutable(), size <= Message::kInlineBytes)
                  << "not copied, although it was waited for";
            },
            soon());
        ASSERT_TRUE(looked) << to_string(looked.error());
      }
      sender.join();
      beside.join();
    }
  }
}

// The credit is free before the function is called, and the sender that sleeps for it is woken.
TEST_F(Looks, ASleepingProducerGoesOnWhileTheReaderLooks) {
  for (const unsigned slots : {1u, 2u, 8u}) {
    for (const Bytes size : {Bytes{10}, Bytes{1000}}) {
      out_.reset();
      options_.slots = slots;
      options_.spin = {};
      Consumer in = join();
      for (std::uint64_t i = 0; i < slots; ++i) send(size, i);
      std::atomic<bool> is_sent{false};
      std::thread sender([&] {
        send(size, slots);
        is_sent = true;
        is_sent.notify_all();
      });
      const auto looked = in.look([&](const Message&) { is_sent.wait(false); }, soon());
      ASSERT_TRUE(looked) << to_string(looked.error());
      sender.join();
      for (std::uint64_t i = 1; i <= slots; ++i) look(in, size, i);
    }
  }
}

// ---- readers that are not served any more ----------------------------------------------------

// What such a reader inherits lies beside its records. It is cut while it looks, and while the rest
// is unread.
TEST_F(Looks, ACutReadersPlacesStayUntilItHasReadThem) {
  std::optional<Consumer> first(join());
  for (std::uint64_t i = 1; i <= 6; ++i) send(1000, i);
  first.reset();
  while (!out().explain().status.consumers.empty()) std::this_thread::yield();
  Consumer slow = join(SlowConsumer::disconnect, 2);
  const auto looked = slow.look(
      [&](const Message& message) {
        const auto sent = out().send(pattern(20, 7), soon());  // it has too many: it is cut
        EXPECT_TRUE(sent || sent.error().code == Code::peer_gone);
        Consumer fast = join();
        if (out().explain().status.backlog == 0) send_on(fast, 10);
        EXPECT_EQ(message.info().user, 1u);
        EXPECT_TRUE(is_as_sent(message, 1000));
      },
      soon());
  ASSERT_TRUE(looked) << to_string(looked.error());
  for (std::uint64_t i = 2; i <= 6; ++i) look(slow, 1000, i);
  EXPECT_EQ(slow.receive(soon()).error().code, Code::peer_gone);
  Consumer fast = join();
  while (departed() != 0) std::this_thread::yield();
  send_on(fast, 10);
  EXPECT_EQ(slots_held(), 0u) << "they go beside their records again";
}

TEST_F(Looks, AReaderThatLosesTheOldestLooksAtAPrivateCopy) {
  std::optional<Consumer> first(join());
  for (std::uint64_t i = 1; i <= 6; ++i) send(1000, i);
  first.reset();
  while (!out().explain().status.consumers.empty()) std::this_thread::yield();
  std::optional<Consumer> lossy(join(SlowConsumer::drop_oldest, 6));
  const auto looked = lossy->look(
      [&](const Message& message) {
        lossy.reset();
        while (!out().explain().status.consumers.empty()) std::this_thread::yield();
        Consumer fast = join();
        for (std::uint64_t i = 2; i <= 6; ++i) receive(fast, 1000, i);
        send_on(fast, 10);
        EXPECT_TRUE(is_as_sent(message, 1000));
        EXPECT_TRUE(message.is_immutable());
      },
      soon());
  ASSERT_TRUE(looked) << to_string(looked.error());
}

// A reader that writes its page by hand.
class LooksByHand : public Looks {
 protected:
  LooksByHand() {
    out();
    fast_.emplace(join());
    joined_.emplace(test::join_by_hand(directory_.path(), SlowConsumer::block));
  }
  [[nodiscard]] const ProducerPage& producer() const {
    return *reinterpret_cast<const ProducerPage*>(joined_->producer_page.data());
  }
  [[nodiscard]] ConsumerPage& page() { return joined_->impostor.page(); }
  [[nodiscard]] std::vector<std::byte> place(std::size_t index) const {
    return {producer().beside[index].begin(), producer().beside[index].begin() + 3000};
  }
  /// Places, from the first message's on, that still hold what was sent first.
  [[nodiscard]] std::vector<std::size_t> unchanged(std::size_t count) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < count; ++i)
      if (same(place(i), pattern(3000, i + 1))) all.push_back(i + 1);
    return all;
  }
  void await_readers(std::size_t count) {
    while (out().explain().status.consumers.size() != count) std::this_thread::yield();
  }

  std::optional<Consumer> fast_;
  std::optional<test::Joined> joined_;
};

TEST_F(LooksByHand, ACutReaderKeepsWhatItWasGivenUntilItHangsUpAndItsLookUntilItsEnd) {
  send_on(*fast_, 1, 6);
  page().looking = 2;
  page().taken = 3;
  ASSERT_EQ(out().explain().status.consumers.size(), 2u);  // it was looked at
  page().taken = 1000;                                     // nonsense
  static_cast<void>(out().explain());
  await_readers(1);
  EXPECT_EQ(departed(), 1u);
  send_on(*fast_, 100);
  EXPECT_EQ(unchanged(6), (std::vector<std::size_t>{2, 4, 5, 6}));
  page().taken = 3;
  joined_->impostor.socket = Fd();  // it takes no more
  while (out().explain().status.departed.empty() ||
         out().explain().status.departed.front().messages != 0)
    std::this_thread::yield();
  bool is_confirmed = false;
  for (std::uint64_t turn = 0; !is_confirmed; ++turn) {
    send_on(*fast_, 1000 + turn * 1000);
    is_confirmed = unchanged(6).size() < 4;
  }
  send_on(*fast_, 100);
  EXPECT_EQ(unchanged(6), (std::vector<std::size_t>{2}));
  page().looking = 0;
  send_on(*fast_, 100);
  EXPECT_TRUE(unchanged(6).empty());
  EXPECT_EQ(departed(), 0u);
}

TEST_F(LooksByHand, WhoLeavesInTheMiddleOfALookKeepsItsPlaceAlone) {
  send_on(*fast_, 1, 6);
  page().looking = 2;
  page().taken = 2;
  joined_->impostor.socket = Fd();
  await_readers(1);
  send_on(*fast_, 100);
  EXPECT_EQ(unchanged(6), (std::vector<std::size_t>{2}));
  EXPECT_EQ(departed(), 1u);
  joined_->impostor.wake_receiver = {};  // its process dies
  joined_->wake_sender = Fd();
  send_on(*fast_, 100);
  EXPECT_TRUE(unchanged(6).empty());
}

// A reader that loses the oldest reads a place after it took the message.
TEST_F(LooksByHand, ACutReaderThatMayMissMessagesKeepsThemAllUntilItHangsUp) {
  joined_->impostor.socket = Fd();
  joined_.reset();
  await_readers(1);
  send_on(*fast_, 1, kBesidePlaces);  // the next message lies in the first place
  for (std::uint64_t seed = 1; seed <= 6; ++seed) send(3000, seed);
  fast_.reset();
  await_readers(0);
  joined_.emplace(test::join_by_hand(directory_.path(), SlowConsumer::drop_oldest));
  page().taken = 2;
  static_cast<void>(out().explain());
  page().taken = 1000;  // nonsense
  static_cast<void>(out().explain());
  await_readers(0);
  fast_.emplace(join());
  send_on(*fast_, 100);
  EXPECT_EQ(unchanged(6), (std::vector<std::size_t>{1, 2, 3, 4, 5, 6}));
  joined_->impostor.socket = Fd();
  while (departed() != 0) std::this_thread::yield();
  send_on(*fast_, 100);
  EXPECT_TRUE(unchanged(6).empty());
}

// Then the turn of the others is short, and comes to a message that is unread or looked at.
TEST_F(LooksByHand, PlacesThatAreKeptForOneThatWasCutAreNotTakenFromThoseThatAreServed) {
  joined_.reset();
  fast_.reset();
  out_.reset();
  options_.slots = 64;
  out();
  fast_.emplace(join());
  joined_.emplace(test::join_by_hand(directory_.path()));
  send_on(*fast_, 1, 60);
  page().taken = 1000;  // nonsense
  static_cast<void>(out().explain());
  await_readers(1);
  test::Joined second = test::join_by_hand(directory_.path());
  send_on(*fast_, 61, 2);
  second.impostor.page().looking = 61;
  second.impostor.page().taken = 1;
  send_on(*fast_, 63, 40);
  EXPECT_EQ(unchanged(62).size(), 62u);
  EXPECT_GT(slots_held(), 0u) << "there was no place for some";
}

// It locks places at most; nobody else waits for them.
TEST_F(LooksByHand, WhoLiesAboutItsLooksCostsOthersNothingButSlots) {
  for (const std::uint64_t lie : {std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 40}) {
    page().looking = lie;
    std::uint64_t taken = page().taken.load();
    for (std::uint64_t seed = 1; seed <= kMoreThanPlaces; ++seed) {
      send(3000, seed);
      receive(*fast_, 3000, seed);
      page().taken = ++taken;
      for (std::size_t slot = 0; slot < kMaxSlots; ++slot) page().released.release(slot, taken);
    }
    EXPECT_EQ(out().explain().status.consumers.size(), 2u);
  }
}

TEST(LookAfter, AddressSanitizerReportsAPointerThatWasKept) {
  if (!has_address_sanitizer()) GTEST_SKIP() << "needs AddressSanitizer";
  const test::ScratchDirectory directory;
  ProducerOptions options = options_in(directory);
  options.cell_bytes = kCell;
  Producer out = *make_producer("frames", options);
  Consumer in = *Consumer::open("frames", consumer_options(options), soon());
  ASSERT_TRUE(out.send(pattern(1000, 1), soon()));
  const std::byte* kept = nullptr;
  ASSERT_TRUE(in.look([&](const Message& message) { kept = message.bytes().data(); }, soon()));
  // This file is not instrumented, but memcpy() is the sanitizer's, unless its size is constant.
  std::array<std::byte, 8> copy{};
  const volatile std::size_t some = copy.size();
  EXPECT_DEATH(std::memcpy(copy.data(), kept, some), "use-after-poison");
  for (int i = 0; i < 2 * int{kBesidePlaces}; ++i) {
    ASSERT_TRUE(out.send(pattern(1000, 1), soon()));
    const Message message = must(in.receive(soon()));
    EXPECT_TRUE(same(message.bytes(), pattern(1000, 1))) << "a new message";
  }
}

}  // namespace
}  // namespace gantry
