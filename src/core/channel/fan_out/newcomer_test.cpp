#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "core/channel/test_support.hpp"

// Who joins, or is busy, while memory comes and goes.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class Newcomer : public testing::Test {
 protected:
  Newcomer() { options_.consumers = 4; }
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

// What was sent before anybody came lies in slots. A reader that keeps all of it gets the rest,
// which goes beside its records.
TEST_F(Newcomer, MayKeepAllSmallMessages) {
  constexpr std::uint64_t kMessages = 100;
  options_.consumers = 1;
  options_.slots = 8;
  options_.cell_bytes = PayloadOptions::kMaxCellBytes;
  for (const bool by_ticket : {false, true}) {
    Producer out = *make_producer("frames", options_);
    std::atomic<std::uint64_t> sent{0};
    std::thread sender([&] {
      for (std::uint64_t i = 1; i <= kMessages; ++i) {
        const auto payload = pattern(1000, i);
        const auto ticket = by_ticket ? out.send_async(payload, {.deadline = soon()}) : Ticket{};
        const auto done = !ticket     ? Result<void>(tl::unexpected(ticket.error()))
                          : by_ticket ? out.wait(*ticket, soon())
                                      : out.send(payload, soon());
        if (!done) return;
        ++sent;
      }
    });
    while (sent < options_.slots) std::this_thread::yield();  // the next one waits for a slot
    Consumer in = *Consumer::open("frames", consumer_options(options_), soon());
    std::vector<Message> kept;
    while (kept.size() < kMessages) {
      auto message = in.receive(soon());
      EXPECT_TRUE(message) << "after " << kept.size() << ": " << to_string(message.error());
      if (!message) break;
      kept.push_back(*std::move(message));
    }
    sender.join();
    EXPECT_EQ(sent, kMessages);
    for (std::uint64_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(same(kept[i].bytes(), pattern(1000, i + 1))) << i;
  }
}

// Defect: it was told of the end of memory that it had never heard of, and did not believe it.
TEST_F(Newcomer, HearsNothingOfMemoryThatWentBefore) {
  Producer out = *make_producer("frames", options_);
  Consumer first = *Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(out.send(pattern(kMiB, 1), soon()));
  ASSERT_TRUE(first.receive(soon()));
  Pool pool = out.pool();
  ASSERT_TRUE(out.loan(100, soon()));  // looks at what was given back
  ASSERT_NE(pool.trim(), 0u);
  Consumer newcomer = *Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(out.send(pattern(2 * kMiB, 2), soon()));
  for (Consumer* in : {&first, &newcomer}) {
    const auto message = in->receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_TRUE(same(message->bytes(), pattern(2 * kMiB, 2)));
  }
}

// Defect: all there was to know of went over its socket at once, which took 278 packets.
TEST_F(Newcomer, JoinsHoweverManySlabsThereAre) {
  constexpr int kSlabs = 320;
  options_.pool.slab_bytes = 4096;
  Producer out = *make_producer("frames", options_);
  Pool pool = out.pool();
  Consumer first = *Consumer::open("frames", consumer_options(options_), soon());
  std::vector<Block> kept;
  for (int i = 0; i < kSlabs; ++i) {
    Block block = *pool.allocate(4096);
    kept.push_back(block.share());
    ASSERT_TRUE(out.send(std::move(block), {.deadline = soon()}));
    const auto message = first.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
  }
  ASSERT_GE(pool.report().slabs, static_cast<std::uint64_t>(kSlabs));
  Consumer newcomer = *Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(out.send(pattern(4096, 7), soon()));
  const auto message = newcomer.receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_TRUE(same(message->bytes(), pattern(4096, 7)));
}

// It hears nothing for a while, and 280 packets later it is still there.
TEST_F(Newcomer, WhoIsBusyWhileSlabsComeAndGoIsNotCutOff) {
  options_.pool.slab_bytes = 4096;
  Producer out = *make_producer("frames", options_);
  Pool pool = out.pool();
  Consumer first = *Consumer::open("frames", consumer_options(options_), soon());
  ConsumerOptions passed_over = consumer_options(options_);
  passed_over.when_slow = SlowConsumer::drop_newest;
  Consumer busy = *Consumer::open("frames", passed_over, soon());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(out.send(*pool.allocate(4096), {.deadline = soon()}));
    ASSERT_TRUE(first.receive(soon()));
    ASSERT_TRUE(out.send(pattern(100, 1), soon()));  // looks at what was given back
    ASSERT_TRUE(first.receive(soon()));
    pool.trim();
  }
  const auto oldest = busy.receive(soon());
  ASSERT_TRUE(oldest) << oldest.error().message;
  while (busy.receive(Deadline::now())) {
  }
  ASSERT_TRUE(out.send(pattern(5000, 9), soon()));
  const auto newest = busy.receive(soon());
  ASSERT_TRUE(newest) << newest.error().message;
  EXPECT_TRUE(same(newest->bytes(), pattern(5000, 9)));
}

// Readers join and leave while the producer sends and its memory comes and goes. A newcomer may be
// told of memory before it is told that it has joined.
TEST_F(Newcomer, ComesAndGoesWhileMessagesAreSent) {
  constexpr std::uint64_t kJoins = 150;
  options_.pool.slab_bytes = 4096;
  options_.slots = 4;
  Producer out = *make_producer("frames", options_);
  Pool pool = out.pool();
  Consumer first = *Consumer::open("frames", consumer_options(options_), soon());
  std::atomic<unsigned> joining{2};
  std::vector<std::thread> newcomers;
  for (const unsigned take : {0u, 2u})
    newcomers.emplace_back([&, take] {
      ConsumerOptions passed_over = consumer_options(options_);
      passed_over.when_slow = SlowConsumer::drop_newest;
      for (std::uint64_t i = 0; i < kJoins; ++i) {
        auto newcomer = Consumer::open("frames", passed_over, soon());
        EXPECT_TRUE(newcomer) << i << ": " << to_string(newcomer.error());
        for (unsigned taken = 0; newcomer && taken < take; ++taken)
          EXPECT_TRUE(newcomer->receive(soon()));
      }
      joining.fetch_sub(1, std::memory_order_relaxed);
    });
  std::uint64_t sent = 0;
  const auto exchange = [&](Bytes size) {
    ++sent;
    ASSERT_TRUE(out.send(pattern(size, sent), {.deadline = soon(), .user = sent}));
    const auto message = first.receive(soon());
    ASSERT_TRUE(message) << sent << ": " << to_string(message.error());
    EXPECT_EQ(message->info().user, sent);
    EXPECT_TRUE(same(message->bytes(), pattern(size, sent)));
  };
  while (joining.load(std::memory_order_relaxed) != 0 && !HasFailure()) {
    exchange(1 + sent % Message::kInlineBytes);
    exchange(4096);
    pool.trim();
  }
  for (std::thread& one : newcomers) one.join();
  EXPECT_EQ(out.metrics().messages, sent);
}

// Each size has its own pieces: copy_few(). What the place held before must not show.
TEST_F(Newcomer, GetsEachSmallSizeWhole) {
  Producer out = *make_producer("frames", options_);
  Consumer in = *Consumer::open("frames", consumer_options(options_), soon());
  Bytes bytes = 0;
  for (unsigned round = 0; round < 16; ++round)
    for (Bytes size = 0; size <= Message::kInlineBytes; ++size) {
      const auto payload = pattern(size + round, size);  // from an address that is aligned or not
      const auto part = ConstByteSpan(payload).subspan(round);
      ASSERT_TRUE(out.send(part, soon()));
      const auto message = in.receive(soon());
      ASSERT_TRUE(message) << to_string(message.error());
      EXPECT_TRUE(same(message->bytes(), part)) << size << " bytes";
      bytes += size;
    }
  const MetricsReport told = out.metrics();
  EXPECT_EQ(told.messages, 16 * (Message::kInlineBytes + 1));
  EXPECT_EQ(told.bytes, bytes);
}

// Defect: beside what had waited for it and a whole history its ring had no cell left for loans
// that were out, and their messages were lost, though they were published without an error.
TEST_F(Newcomer, HasRoomForLoansThatWereOutWhenItJoined) {
  constexpr std::uint64_t kSlots = 4;
  options_.slots = options_.history = kSlots;
  Producer out = *make_producer("frames", options_);
  ConsumerOptions passed_over = consumer_options(options_);
  passed_over.when_slow = SlowConsumer::drop_newest;
  passed_over.depth = kSlots;
  std::optional<Consumer> slow(*Consumer::open("frames", passed_over, soon()));
  for (std::uint64_t i = 1; i <= 2 * kSlots; ++i)  // it misses the second half
    ASSERT_TRUE(out.send(pattern(16, i), {.deadline = soon(), .user = i}));
  std::vector<Loan> loans;
  for (std::uint64_t i = 0; i < kSlots; ++i) {
    loans.push_back(*out.loan(5000, soon()));
    const auto bytes = pattern(5000, 100 + i);
    std::copy(bytes.begin(), bytes.end(), loans.back().bytes().begin());
  }
  slow.reset();
  while (!out.explain().status.consumers.empty()) std::this_thread::yield();
  Consumer next = *Consumer::open("frames", consumer_options(options_), soon());
  for (std::uint64_t i = 0; i < kSlots; ++i)
    ASSERT_TRUE(out.publish(std::move(loans[i]), {.deadline = soon(), .user = 100 + i}));
  for (const std::uint64_t first : {std::uint64_t{1}, std::uint64_t{100}})
    for (std::uint64_t i = first; i < first + kSlots; ++i) {
      const auto message = next.receive(soon());
      ASSERT_TRUE(message) << i << ": " << message.error().message;
      EXPECT_EQ(message->info().user, i);
      EXPECT_TRUE(same(message->bytes(), pattern(first == 1 ? 16 : 5000, i)));
    }
}

}  // namespace
}  // namespace gantry
