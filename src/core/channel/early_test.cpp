#include <gtest/gtest.h>

#include <thread>

#include "core/channel/test_support.hpp"

// Messages that are sent before they are filled. Property: readers get what is said to have landed,
// in time and byte for byte, and nothing overtakes.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::pattern;
using test::same;
using test::soon;

class Early : public testing::Test {
 protected:
  Block block_of(Bytes bytes) { return *out_.pool().allocate(bytes); }
  static void fill(Block& block, ConstByteSpan from, Bytes begin, Bytes end) {
    std::ranges::copy(from.subspan(begin, end - begin), block.bytes().subspan(begin).begin());
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer out_ = *make_producer("frames", options_);
  Consumer in_ = *Consumer::open("frames", consumer_options(options_), soon());
};

TEST_F(Early, ReadersGetWhatHasLandedAndNoMore) {
  const auto payload = pattern(300'001, 1);
  Block block = block_of(payload.size());
  auto outgoing = out_.send_early(Draft().move(block.share()),
                                  {.deadline = soon(), .type = 7, .user = 8, .correlation = 9});
  ASSERT_TRUE(outgoing) << outgoing.error().message;
  EXPECT_EQ(outgoing->size(), payload.size());
  auto incoming = in_.receive_early(soon());
  ASSERT_TRUE(incoming) << incoming.error().message;
  EXPECT_EQ(incoming->size(), payload.size());
  EXPECT_EQ(incoming->info().type, 7u);
  EXPECT_EQ(incoming->info().user, 8u);
  EXPECT_EQ(incoming->info().correlation, 9u);
  EXPECT_EQ(incoming->next(Deadline::now()).error().code, Code::timed_out);
  Bytes begin = 0;
  for (const Bytes end :
       {Bytes{1}, Bytes{64}, Bytes{100'000}, payload.size() - 1, payload.size()}) {
    fill(block, payload, begin, end);
    ASSERT_TRUE(outgoing->land(end));
    EXPECT_EQ(incoming->landed(), end);
    const auto chunk = incoming->next(soon());
    ASSERT_TRUE(chunk);
    EXPECT_TRUE(same(*chunk, ConstByteSpan(payload).subspan(begin, end - begin))) << end;
    begin = end;
  }
  EXPECT_TRUE(incoming->next(soon())->empty());
  EXPECT_TRUE(same(incoming->whole(soon())->bytes(), payload));
}

TEST_F(Early, AReaderThatSleepsIsWokenByWhatLands) {
  const auto payload = pattern(1'000'000, 2);
  Block block = block_of(payload.size());
  std::thread reader([&] {
    auto incoming = in_.receive_early(soon());
    ASSERT_TRUE(incoming);
    EXPECT_TRUE(same(incoming->wait_for(10, soon())->first(10), ConstByteSpan(payload).first(10)));
    EXPECT_TRUE(same(incoming->whole(soon())->bytes(), payload));
  });
  auto outgoing = out_.send_early(Draft().move(block.share()), {.deadline = soon()});
  ASSERT_TRUE(outgoing);
  fill(block, payload, 0, 10);
  ASSERT_TRUE(outgoing->land(10));
  fill(block, payload, 10, payload.size());
  ASSERT_TRUE(outgoing->land(payload.size()));
  reader.join();
}

TEST_F(Early, SegmentsAndTensorsLandInTheirOrder) {
  const std::int64_t shape[] = {10, 100};
  const auto tensor = Tensor::dense({DataType::unsigned_int, 8, 1}, shape);
  const auto first = pattern(1000, 3);
  const auto second = pattern(500, 4);
  Block a = block_of(1000);
  Block b = block_of(500);
  auto outgoing = out_.send_early(Draft().move(a.share(), 1000, tensor).move(b.share(), 500),
                                  {.deadline = soon()});
  ASSERT_TRUE(outgoing) << outgoing.error().message;
  auto incoming = in_.receive_early(soon());
  ASSERT_TRUE(incoming);
  fill(a, first, 0, 1000);
  fill(b, second, 0, 100);
  ASSERT_TRUE(outgoing->land(1100));
  EXPECT_TRUE(same(*incoming->next(soon()), first));
  EXPECT_TRUE(same(*incoming->next(soon()), ConstByteSpan(second).first(100)));
  EXPECT_EQ(incoming->next(Deadline::now()).error().code, Code::timed_out);
  fill(b, second, 100, 500);
  ASSERT_TRUE(outgoing->land(1500));
  const auto message = incoming->whole(soon());
  ASSERT_TRUE(message);
  ASSERT_EQ(message->segments(), 2u);
  EXPECT_EQ(message->segment(0).tensor->shape[1], 100);
  EXPECT_TRUE(same(message->segment(0).bytes, first));
  EXPECT_TRUE(same(message->segment(1).bytes, second));
}

// What a batch does not return is nobody's yet.
TEST_F(Early, ABatchLeavesToTheNextReaderWhatStillLands) {
  const auto before = pattern(50, 15);
  const auto payload = pattern(100'000, 16);
  ASSERT_TRUE(out_.send(before, soon()));
  Block block = block_of(payload.size());
  auto early = out_.send_early(Draft().move(block.share()), {.deadline = soon()});
  ASSERT_TRUE(early) << early.error().message;
  {
    Consumer leaving = std::move(in_);
    std::array<Message, 4> batch;
    ASSERT_EQ(leaving.receive_batch(batch, soon()).value(), 1u);
    EXPECT_TRUE(same(batch[0].bytes(), before));
  }
  fill(block, payload, 0, payload.size());
  ASSERT_TRUE(early->land(payload.size()));
  Consumer next = *Consumer::open("frames", consumer_options(options_), soon());
  const auto message = next.receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_TRUE(same(message->bytes(), payload));
}

TEST_F(Early, NothingElseGoesUntilItHasLanded) {
  const auto payload = pattern(100'000, 5);
  Block block = block_of(payload.size());
  auto outgoing = out_.send_early(Draft().move(block.share()), {.deadline = soon()});
  ASSERT_TRUE(outgoing);
  const auto is_busy = [](const auto& result) {
    return !result && result.error().code == Code::busy;
  };
  EXPECT_TRUE(is_busy(out_.send(payload, soon())));
  EXPECT_TRUE(is_busy(out_.send(ConstByteSpan(payload).first(8), soon())));
  EXPECT_TRUE(is_busy(out_.send(Draft().copy(payload))));
  EXPECT_TRUE(is_busy(out_.send_async(payload)));
  EXPECT_TRUE(is_busy(out_.send_early(Draft().move(block_of(10)))));
  EXPECT_TRUE(is_busy(out_.close(soon())));
  const ConstByteSpan small[] = {ConstByteSpan(payload).first(8)};
  EXPECT_TRUE(is_busy(out_.send_batch(small)));
  auto loan = out_.loan(payload.size(), soon());
  ASSERT_TRUE(loan);
  std::ranges::copy(payload, loan->bytes().begin());
  fill(block, payload, 0, payload.size());
  ASSERT_TRUE(outgoing->land(payload.size()));
  ASSERT_TRUE(out_.publish(*std::move(loan)));
  ASSERT_TRUE(out_.send(ConstByteSpan(payload).first(8), soon()));
  EXPECT_TRUE(same(in_.receive(soon())->bytes(), payload));
  EXPECT_TRUE(same(in_.receive(soon())->bytes(), payload));
  EXPECT_TRUE(same(in_.receive(soon())->bytes(), ConstByteSpan(payload).first(8)));
}

TEST_F(Early, ALoanWaitsUntilItHasLanded) {
  auto loan = out_.loan(1000, soon());
  ASSERT_TRUE(loan);
  auto outgoing = out_.send_early(Draft().move(block_of(1000)), {.deadline = soon()});
  ASSERT_TRUE(outgoing);
  EXPECT_EQ(out_.publish(*std::move(loan)).error().code, Code::busy);
}

TEST_F(Early, WhatIsDroppedIsGivenUp) {
  const auto payload = pattern(1000, 6);
  Block block = block_of(1000);
  auto outgoing = out_.send_early(Draft().move(block.share()), {.deadline = soon()});
  ASSERT_TRUE(outgoing);
  auto incoming = in_.receive_early(soon());
  fill(block, payload, 0, 600);
  ASSERT_TRUE(outgoing->land(600));
  *outgoing = EarlyMessage();
  EXPECT_TRUE(same(*incoming->next(soon()), ConstByteSpan(payload).first(600)));
  EXPECT_EQ(incoming->next(soon()).error().code, Code::aborted);
  // Another one that nobody has looked at; receive() passes over it.
  EXPECT_TRUE(out_.send_early(Draft().move(block_of(10)), {.deadline = soon()}));
  ASSERT_TRUE(out_.send(payload, soon()));
  EXPECT_TRUE(same(in_.receive(soon())->bytes(), payload));
}

TEST_F(Early, ManyGiveTheirMemoryAndSlotsBack) {
  const auto payload = pattern(400'000, 7);
  for (int i = 0; i < 200; ++i) {
    auto block = out_.pool().allocate(payload.size());
    ASSERT_TRUE(block) << block.error().message;
    auto outgoing = out_.send_early(Draft().move(block->share()), {.deadline = soon()});
    ASSERT_TRUE(outgoing) << outgoing.error().message;
    fill(*block, payload, 0, payload.size());
    *block = Block();
    if (i % 3 == 0) continue;
    ASSERT_TRUE(outgoing->land(payload.size()));
    EXPECT_TRUE(same(in_.receive(soon())->bytes(), payload));
  }
  ASSERT_TRUE(out_.send(payload, soon()));
  EXPECT_TRUE(same(in_.receive(soon())->bytes(), payload));
  EXPECT_LE(out_.pool().report().live_bytes, 2 * kMiB);
}

TEST_F(Early, OnlyBlocksOfItsPoolGoAndOnlyWhatLandsCounts) {
  const auto payload = pattern(1000, 8);
  const auto copied = out_.send_early(Draft().move(block_of(9)).copy(payload));
  EXPECT_EQ(copied.error().code, Code::invalid_argument);
  EXPECT_EQ(copied.error().message,
            "channel 'frames': segment 2 of 2 is no block of this producer's pool, so it cannot be "
            "sent early");
  EXPECT_EQ(out_.send_early(Draft()).error().code, Code::invalid_argument);
  EXPECT_EQ(out_.send_early(Draft().move(block_of(9)), {.mode = SendMode::immutable}).error().code,
            Code::invalid_argument);
  Producer other = *make_producer("others", options_);
  EXPECT_EQ(out_.send_early(Draft().move(*other.pool().allocate(9))).error().code,
            Code::invalid_argument);
  ASSERT_TRUE(out_.send(payload, soon()));
  EXPECT_TRUE(same(in_.receive(soon())->bytes(), payload));
  ASSERT_TRUE(out_.send(payload, soon()));
  Message forwarded = *in_.receive(soon());
  EXPECT_EQ(out_.send_early(Draft().forward(std::move(forwarded))).error().code,
            Code::invalid_argument);
  auto outgoing = out_.send_early(Draft().move(block_of(100), 100), {.deadline = soon()});
  ASSERT_TRUE(outgoing);
  ASSERT_TRUE(outgoing->land(50));
  EXPECT_EQ(outgoing->land(49).error().code, Code::invalid_argument);
  EXPECT_EQ(outgoing->land(101).error().code, Code::invalid_argument);
  EXPECT_EQ(outgoing->landed(), 50u);
  ASSERT_TRUE(outgoing->land(100));
  EXPECT_TRUE(outgoing->land(100));
}

TEST_F(Early, ItMayOutliveItsProducer) {
  auto outgoing = out_.send_early(Draft().move(block_of(1000)), {.deadline = soon()});
  ASSERT_TRUE(outgoing);
  auto incoming = in_.receive_early(soon());
  {
    const Producer gone = std::move(out_);
  }
  EXPECT_TRUE(outgoing->land(1000));
  EXPECT_EQ(in_.receive(soon()).error().code, Code::peer_gone);
}

TEST_F(Early, AFullChannelIsWaitedForInTime) {
  std::vector<Message> held;
  const auto payload = pattern(100'000, 9);
  for (unsigned i = 0; i < options_.slots; ++i) {
    ASSERT_TRUE(out_.send(payload, soon()));
    held.push_back(*in_.receive(soon()));
  }
  Block block = block_of(1000);
  const auto late = out_.send_early(Draft().move(block.share()), {.deadline = Deadline::now()});
  EXPECT_EQ(late.error().code, Code::timed_out);
  held.pop_back();
  EXPECT_TRUE(out_.send_early(Draft().move(block.share()), {.deadline = soon()}));
}

}  // namespace
}  // namespace gantry
