#include <gtest/gtest.h>

#include <thread>

#include "core/channel/test_fan_out.hpp"

// Several messages in one call: each is a message like any other.
namespace gantry {
namespace {

using test::consumer_options;
using test::pattern;
using test::same;
using test::soon;

class Batches : public test::FanOutFixture {
 protected:
  using Payloads = std::vector<std::vector<std::byte>>;
  static Payloads payloads(std::size_t count, Bytes most, std::uint64_t seed) {
    Payloads made;
    for (std::size_t i = 0; i < count; ++i)
      made.push_back(pattern((seed + i) * 7919 % (most + 1), seed + i));
    return made;
  }
  static std::vector<ConstByteSpan> spans(const Payloads& payloads) {
    return {payloads.begin(), payloads.end()};
  }
  static void expect(std::span<const Message> got, const Payloads& sent, std::size_t from) {
    ASSERT_LE(from + got.size(), sent.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(same(got[i].bytes(), sent[from + i])) << from + i;
      EXPECT_EQ(got[i].info().sequence, from + i + 1);
      EXPECT_EQ(got[i].info().type, 7u);
    }
  }
};

TEST_F(Batches, ArriveWholeAndInOrderAtEveryReader) {
  options_.consumers = 3;
  const Payloads sent = payloads(2000, 64, 1);
  std::vector<Consumer> ends;
  for (int i = 0; i < 3; ++i) ends.push_back(join());
  std::vector<std::thread> readers;
  for (Consumer& in : ends)
    readers.emplace_back([&] {
      std::vector<Message> into(29);
      for (std::size_t had = 0; had < sent.size();) {
        const auto count = in.receive_batch(into, soon());
        ASSERT_TRUE(count) << to_string(count.error());
        ASSERT_GE(*count, 1u);
        expect(std::span(into).first(*count), sent, had);
        had += *count;
      }
    });
  const auto all = spans(sent);
  for (std::size_t from = 0; from < all.size(); from += 50) {
    const auto count =
        out().send_batch(std::span(all).subspan(from, 50), {.deadline = soon(), .type = 7});
    ASSERT_TRUE(count) << to_string(count.error());
    EXPECT_EQ(*count, 50u);
  }
  for (std::thread& one : readers) one.join();
  EXPECT_EQ(out().metrics().messages, sent.size());
}

TEST_F(Batches, OfAllSizesGoBesideEachOther) {
  options_.cell_bytes = PayloadOptions::kMaxCellBytes;
  Consumer in = join();
  const Payloads sent = payloads(300, 10'000, 3);
  std::thread sender([&] {
    const auto count = out().send_batch(spans(sent), {.deadline = soon(), .type = 7});
    ASSERT_TRUE(count);
    EXPECT_EQ(*count, sent.size());
    ASSERT_TRUE(out().close(soon()));
  });
  std::vector<Message> into(7);
  std::size_t had = 0;
  for (;;) {
    const auto count = in.receive_batch(into, soon());
    if (!count) {
      EXPECT_EQ(count.error().code, Code::closed);
      break;
    }
    expect(std::span(into).first(*count), sent, had);
    had += *count;
  }
  EXPECT_EQ(had, sent.size());
  sender.join();
}

TEST_F(Batches, SayHowFarTheyCame) {
  options_.slots = 4;
  Consumer in = join();
  const Payloads sent = payloads(10, 64, 5);
  const auto all = spans(sent);
  EXPECT_EQ(*out().send_batch(all, {.deadline = Deadline::now(), .type = 7}), 4u);
  const auto more =
      out().send_batch(std::span(all).subspan(4), {.deadline = Deadline::now(), .type = 7});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::timed_out);
  std::vector<Message> into(10);
  EXPECT_EQ(*in.receive_batch(into, soon()), 4u);
  expect(std::span(into).first(4), sent, 0);
  EXPECT_EQ(in.receive_batch(into, Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(*out().send_batch({}, {}), 0u);
  EXPECT_EQ(in.receive_batch({}, soon()).error().code, Code::invalid_argument);
}

// What lies in the places already may be what the producer waits for.
TEST_F(Batches, PlacesAreEmptiedBeforeTheWait) {
  options_.slots = 2;
  Consumer in = join();
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(out().send(pattern(5000, i), soon()));
  });
  std::vector<Message> into(2);
  for (std::uint64_t had = 0; had < 50;) {
    const auto count = in.receive_batch(into, soon());
    ASSERT_TRUE(count) << to_string(count.error());
    for (std::size_t i = 0; i < *count; ++i)
      EXPECT_TRUE(same(into[i].bytes(), pattern(5000, had + i)));
    had += *count;
  }
  sender.join();
}

TEST_F(Batches, WakeWhoSleeps) {
  options_.spin = {};
  Consumer in = join();
  const Payloads sent = payloads(8, 64, 9);
  for (std::size_t round = 0; round < 200; ++round) {
    std::thread sender(
        [&] { EXPECT_EQ(*out().send_batch(spans(sent), {.deadline = soon()}), 8u); });
    std::vector<Message> into(8);
    for (std::size_t had = 0; had < 8;) {
      const auto count = in.receive_batch(std::span(into).subspan(had), soon());
      ASSERT_TRUE(count);
      had += *count;
    }
    for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(same(into[i].bytes(), sent[i]));
    sender.join();
  }
}

TEST_F(Batches, WithoutConsumersWaitForTheFirst) {
  const Payloads sent = payloads(6, 64, 2);
  EXPECT_EQ(*out().send_batch(spans(sent), {.deadline = soon(), .type = 7}), 6u);
  Consumer in = join();
  std::vector<Message> into(6);
  EXPECT_EQ(*in.receive_batch(into, soon()), 6u);
  expect(into, sent, 0);
}

}  // namespace
}  // namespace gantry
