#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>

#include "core/channel/test_support.hpp"

// The ways a message goes: whole, pipelined, streamed; by the caller or behind its back.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

struct Way {
  const char* name;
  SendMode mode;
  bool async;
};
const Way kWays[] = {
    {"synchronous", SendMode::whole, false},   {"asynchronous", SendMode::whole, true},
    {"pipelined", SendMode::pipelined, false}, {"pipelined_async", SendMode::pipelined, true},
    {"streamed", SendMode::streamed, false},   {"streamed_async", SendMode::streamed, true},
    {"immutable", SendMode::immutable, false}, {"immutable_async", SendMode::immutable, true},
    {"automatic", SendMode::automatic, false}};

const Bytes kSizes[] = {0,      1,         64,       65,          4096, 16 * 1024 - 1,
                        65'536, 1'000'003, 3 * kMiB, 5 * kMiB + 1};

class Modes : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    options_.pool.budget_bytes = 64 * kMiB;
    out_.emplace(*make_producer("frames", options_));
    in_.emplace(*Consumer::open("frames", consumer_options(options_), soon()));
  }
  Result<void> send(ConstByteSpan payload, SendOptions options = {}) {
    options.mode = GetParam().mode;
    options.deadline = soon();
    if (!GetParam().async) return out_->send(payload, options);
    auto ticket = out_->send_async(payload, options);
    if (!ticket) return tl::unexpected(ticket.error());
    return out_->wait(*ticket, soon());
  }
  /// Sends all on a thread of its own, as consumers of a stream must read meanwhile.
  std::thread sending(const std::vector<std::vector<std::byte>>& payloads) {
    return std::thread([this, &payloads] {
      for (const auto& payload : payloads) ASSERT_TRUE(send(payload)) << payload.size();
    });
  }
  // The same for all tests: made once.
  static const std::vector<std::vector<std::byte>>& payloads() {
    static const std::vector<std::vector<std::byte>> kMade = [] {
      std::vector<std::vector<std::byte>> made;
      for (const Bytes size : kSizes) made.push_back(pattern(size, size));
      return made;
    }();
    return kMade;
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
  std::optional<Consumer> in_;
};

TEST_P(Modes, EverySizeArrivesWhole) {
  const auto& all = payloads();
  std::thread sender = sending(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto message = in_->receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_EQ(message->sequence(), i + 1);
    EXPECT_TRUE(same(message->bytes(), all[i])) << all[i].size();
  }
  sender.join();
}

TEST_P(Modes, ChunkByChunkIsTheSame) {
  const auto& all = payloads();
  std::thread sender = sending(all);
  for (const auto& payload : all) {
    auto incoming = in_->receive_early(soon());
    ASSERT_TRUE(incoming) << incoming.error().message;
    ASSERT_EQ(incoming->size(), payload.size());
    std::vector<std::byte> got;
    for (;;) {
      const auto chunk = incoming->next(soon());
      ASSERT_TRUE(chunk) << chunk.error().message;
      if (chunk->empty()) break;
      got.insert(got.end(), chunk->begin(), chunk->end());
    }
    EXPECT_TRUE(same(got, payload)) << payload.size();
  }
  sender.join();
}

TEST_P(Modes, ReceivingIntoABufferIsTheSame) {
  const auto& all = payloads();
  std::thread sender = sending(all);
  for (const auto& payload : all) {
    std::vector<std::byte> got(payload.size());
    if (!payload.empty()) {
      const auto refused = in_->receive_into(ByteSpan(got).first(got.size() - 1), soon());
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Code::invalid_argument);
    }
    const auto copied = in_->receive_into(got, soon());
    ASSERT_TRUE(copied) << copied.error().message;
    EXPECT_EQ(copied->bytes, payload.size());
    EXPECT_TRUE(same(got, payload)) << payload.size();
  }
  sender.join();
}

TEST_P(Modes, TheSendersWordsArrive) {
  for (const Bytes size : {Bytes{8}, Bytes{60}, Bytes{100'000}}) {
    const auto payload = pattern(size, 1);
    std::thread sender([&] {
      ASSERT_TRUE(send(payload, {.type = 7, .user = 8, .correlation = 9, .deadline_ns = 10}));
    });
    const auto message = in_->receive(soon());
    ASSERT_TRUE(message);
    EXPECT_EQ(message->info().type, 7u);
    EXPECT_EQ(message->info().user, 8u);
    EXPECT_EQ(message->info().correlation, 9u);
    EXPECT_EQ(message->info().deadline_ns, 10u);
    EXPECT_TRUE(same(message->bytes(), payload));
    sender.join();
  }
}

// A consumer that wants the beginning only does not hold the sender up.
TEST_P(Modes, TheRestMayBeLeft) {
  const auto large = pattern(3 * kMiB, 3);
  std::thread sender([&] {
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(large));
    ASSERT_TRUE(out_->close(soon()));
  });
  int seen = 0;
  for (;; ++seen) {
    auto incoming = in_->receive_early(soon());
    if (!incoming) {
      EXPECT_EQ(incoming.error().code, Code::closed) << incoming.error().message;
      break;
    }
    const auto chunk = incoming->next(soon());
    ASSERT_TRUE(chunk);
    EXPECT_TRUE(same(*chunk, ConstByteSpan(large).first(chunk->size())));
  }
  EXPECT_EQ(seen, 20);
  sender.join();
}

// Half of the payload is not there: the message is never delivered as whole, the next one is.
TEST_P(Modes, AMessageThatCannotBeReadIsNotDelivered) {
  const Bytes size = 4 * kMiB;
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<std::byte*>(mapped) + 3 * kMiB, kMiB, PROT_NONE), 0);
  std::thread sender([&] {
    const auto sent = send({static_cast<std::byte*>(mapped), size});
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::invalid_argument) << sent.error().message;
    ASSERT_TRUE(send(pattern(100, 5)));
  });
  const auto message = in_->receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_TRUE(same(message->bytes(), pattern(100, 5)));
  sender.join();
  ::munmap(mapped, size);
}

// Whoever of two copies meets the one bad page, and whatever comes after it.
TEST_P(Modes, AMessageWithOneBadPageIsNotDelivered) {
  for (Bytes closed = 0; closed < 4 * kMiB; closed += 64 * 1024) {
    const test::BrokenPayload payload(4 * kMiB, closed);
    std::thread consumer([this] {
      const auto message = in_->receive(soon());
      ASSERT_TRUE(message) << message.error().message;
      EXPECT_EQ(message->info().user, 1u) << "the broken one was delivered";
    });
    const auto broken = send(payload.bytes());
    const bool told = !broken && broken.error().code == Code::invalid_argument;
    EXPECT_TRUE(told) << "with a bad page at " << closed;
    ASSERT_TRUE(!told || send(pattern(5000, 1), {.user = 1}));
    consumer.join();
  }
}

TEST_P(Modes, NothingStaysBehind) {
  const auto large = pattern(kMiB, 1);
  for (int i = 0; i < 100; ++i) {
    std::thread sender([&] { ASSERT_TRUE(send(large)); });
    ASSERT_TRUE(in_->receive(soon()));
    sender.join();
  }
  ASSERT_TRUE(send(pattern(1, 1)));  // looks at what was given back
  EXPECT_LE(out_->pool().report().live_bytes, 2 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(Ways, Modes, testing::ValuesIn(kWays),
                         [](const auto& way) { return std::string(way.param.name); });

// ---- what only some of them do -------------------------------------------------------------

class Landing : public testing::Test {
 protected:
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer out_ = *make_producer("frames", options_);
  Consumer in_ = *Consumer::open("frames", consumer_options(options_), soon());
};

TEST_F(Landing, AByteMayBeWaitedFor) {
  const auto payload = pattern(2 * kMiB, 1);
  std::thread sender(
      [&] { ASSERT_TRUE(out_.send(payload, {.deadline = soon(), .mode = SendMode::pipelined})); });
  auto incoming = in_.receive_early(soon());
  ASSERT_TRUE(incoming);
  const auto half = incoming->wait_for(kMiB, soon());
  ASSERT_TRUE(half);
  EXPECT_GE(half->size(), kMiB);
  EXPECT_TRUE(same(half->first(kMiB), ConstByteSpan(payload).first(kMiB)));
  const auto message = incoming->whole(soon());
  ASSERT_TRUE(message);
  EXPECT_TRUE(same(message->bytes(), payload));
  sender.join();
}

// It is longer than the window, and what was waited for stays.
TEST_F(Landing, TheFrontOfAStreamMayBeWaitedForAndStays) {
  const auto payload = pattern(8 * kMiB, 1);
  std::thread sender(
      [&] { EXPECT_TRUE(out_.send(payload, {.deadline = soon(), .mode = SendMode::streamed})); });
  auto incoming = in_.receive_early(soon());
  ASSERT_TRUE(incoming && incoming->is_streamed());
  const auto byte = incoming->wait_for(1, soon());
  const auto front = incoming->wait_for(6 * kMiB, soon());
  ASSERT_TRUE(byte && front);
  EXPECT_EQ(byte->data(), front->data());
  EXPECT_TRUE(same(front->first(6 * kMiB), ConstByteSpan(payload).first(6 * kMiB)));
  EXPECT_EQ(incoming->wait_for(8 * kMiB + 1, soon()).error().code, Code::invalid_argument);
  const auto chunk = incoming->next(soon());
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->data(), front->data());
  std::vector<std::byte> rest(payload.size() - chunk->size());
  EXPECT_EQ(*incoming->into(rest, soon()), rest.size());
  EXPECT_TRUE(same(rest, ConstByteSpan(payload).last(rest.size())));
  sender.join();
}

TEST_F(Landing, AMessageThatWasNeverTakenKeepsNothingAlive) {
  ASSERT_TRUE(out_.send(pattern(kMiB, 1), soon()));
  const std::size_t before = test::open_descriptors();
  {
    auto second = options_in(directory_);
    auto out = *make_producer("other", second);
    auto in = *Consumer::open("other", consumer_options(second), soon());
    ASSERT_TRUE(out.send(pattern(kMiB, 1), soon()));
    std::vector<std::byte> too_small(1);
    EXPECT_EQ(in.receive_into(too_small, soon()).error().code, Code::invalid_argument);
  }
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST_F(Landing, AnIncomingThatBecameAMessageKeepsNothingAlive) {
  const std::size_t before = test::open_descriptors();
  for (const SendMode mode : {SendMode::whole, SendMode::streamed}) {
    Incoming emptied;
    {
      auto second = options_in(directory_);
      auto out = *make_producer("other", second);
      auto in = *Consumer::open("other", consumer_options(second), soon());
      const auto payload = pattern(kMiB, 3);
      std::thread sending(
          [&] { EXPECT_TRUE(out.send(payload, {.deadline = soon(), .mode = mode})); });
      emptied = *in.receive_early(soon());
      const auto message = emptied.whole(soon());
      sending.join();
      ASSERT_TRUE(message) << to_string(message.error());
      EXPECT_TRUE(same(message->bytes(), payload));
    }
    EXPECT_EQ(test::open_descriptors(), before);
    EXPECT_EQ(emptied.next(soon()).error().code, Code::invalid_argument);
  }
}

// Without a consumer's pass the window is all that is ever copied.
TEST_F(Landing, AStreamTakesAWindowOfMemoryAndNoMore) {
  const auto payload = pattern(8 * kMiB, 1);
  const auto ticket = out_.send_async(payload, {.mode = SendMode::streamed});
  ASSERT_TRUE(ticket);
  auto incoming = in_.receive_early(soon());
  ASSERT_TRUE(incoming);
  EXPECT_TRUE(incoming->is_streamed());
  ASSERT_TRUE(incoming->next(soon()));
  EXPECT_EQ(out_.wait(*ticket, Deadline::after(std::chrono::milliseconds(1))).error().code,
            Code::timed_out);
  EXPECT_LT(incoming->landed(), payload.size());
  EXPECT_LE(out_.pool().report().live_bytes, 4 * kMiB);
  std::vector<std::byte> rest(payload.size());
  const auto copied = incoming->into(rest, soon());
  ASSERT_TRUE(copied);
  EXPECT_TRUE(same(ConstByteSpan(rest).first(*copied), ConstByteSpan(payload).last(*copied)));
  EXPECT_TRUE(out_.wait(*ticket, soon()));
}

TEST_F(Landing, WhatAReaderGatheredIsCountedWhileItIsHeld) {
  const auto payload = pattern(kMiB, 1);
  std::thread sender(
      [&] { EXPECT_TRUE(out_.send(payload, {.deadline = soon(), .mode = SendMode::streamed})); });
  auto message = in_.receive(soon());
  sender.join();
  ASSERT_TRUE(message);
  EXPECT_EQ(in_.explain().gathered_bytes, kMiB);
  EXPECT_NE(in_.explain().text().find("1 MiB gathered here from streamed messages"),
            std::string::npos);
  message->release();
  EXPECT_EQ(in_.explain().gathered_bytes, 0u);
}

TEST_F(Landing, WhatIsSentBehindTheBackKeepsItsOrder) {
  const auto large = pattern(2 * kMiB, 1);
  std::vector<Ticket> tickets;
  std::thread sender([&] {
    for (int i = 0; i < 30; ++i) {
      const auto ticket = out_.send_async(large, {.user = static_cast<std::uint64_t>(i * 2)});
      ASSERT_TRUE(ticket) << ticket.error().message;
      ASSERT_TRUE(out_.send(ConstByteSpan(large).first(i % 3 == 0 ? 10 : 100'000),
                            {.user = static_cast<std::uint64_t>(i * 2 + 1)}));
      EXPECT_EQ(out_.outcome(*ticket), Outcome::done) << "it was sent before the one after it";
    }
  });
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto message = in_.receive(soon());
    ASSERT_TRUE(message);
    EXPECT_EQ(message->info().user, i);
  }
  sender.join();
}

TEST_F(Landing, TooManyUnsentAreRefusedAndTheRestArrives) {
  const auto payload = pattern(100'000, 1);
  std::size_t taken = 0;
  Ticket newest{};
  Result<Ticket> last = Ticket{};
  while (last) {
    last = out_.send_async(payload, {.deadline = soon()});
    if (!last) break;
    newest = *last;
    ++taken;
  }
  EXPECT_EQ(last.error().code, Code::busy);
  EXPECT_GE(taken, Producer::kMaxUnsent);
  for (std::size_t i = 0; i < taken; ++i) ASSERT_TRUE(in_.receive(soon()));
  EXPECT_TRUE(out_.wait(newest, soon()));  // the payload is ours again
}

TEST_F(Landing, AProducerThatEndsGivesUpWhatWaits) {
  const auto payload = pattern(kMiB, 1);
  std::vector<Message> held;
  for (unsigned i = 0; i < options_.slots; ++i) {
    ASSERT_TRUE(out_.send(payload, soon()));
    held.push_back(*in_.receive(soon()));
  }
  ASSERT_TRUE(out_.send_async(payload));  // no credit for it, ever
  {
    const Producer dropped = std::move(out_);
  }
  EXPECT_EQ(in_.receive(soon()).error().code, Code::peer_gone);
}

TEST_F(Landing, TicketsThatWereNeverGivenAreErrors) {
  EXPECT_EQ(out_.wait(Ticket{1}, soon()).error().code, Code::invalid_argument);
  EXPECT_EQ(out_.outcome(Ticket{1}), Outcome::failed);
}

}  // namespace
}  // namespace gantry
