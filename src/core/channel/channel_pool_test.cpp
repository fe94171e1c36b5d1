#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <gantry/memory.hpp>
#include <gantry/runtime.hpp>
#include <optional>
#include <thread>

#include "core/channel/test_support.hpp"

// Messages that lie where their producer allocated them.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;
using testing::Contains;
using testing::HasSubstr;

class ChannelPool : public testing::Test {
 protected:
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer producer() { return *make_producer("frames", options_); }
  Consumer consumer() { return *Consumer::open("frames", consumer_options(options_), soon()); }
};

TEST_F(ChannelPool, ABlockOfThePoolIsPublishedWithoutACopy) {
  Producer out = producer();
  Consumer in = consumer();
  Pool pool = out.pool();
  auto block = pool.allocate(100'000);
  ASSERT_TRUE(block);
  const auto payload = pattern(100'000, 1);
  std::memcpy(block->bytes().data(), payload.data(), payload.size());
  const Block kept = block->share();
  ASSERT_TRUE(out.send(std::move(*block), {.deadline = soon()}));
  {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_TRUE(same(message->bytes(), payload));
  }
  EXPECT_EQ(out.metrics().copies, MetricsReport{}.copies);
  EXPECT_TRUE(same(kept.bytes(), payload)) << "the other handle keeps it, given back or not";
}

// Copies go into more and more places while their number is tried, and into fewer again: what a
// consumer holds stays as it was sent all the while.
TEST_F(ChannelPool, WhatIsHeldStaysWhileNumbersOfPlacesAreTried) {
  options_.slots = 6;
  Producer out = producer();
  Consumer in = consumer();
  constexpr std::array kSizes = {Bytes{100}, Bytes{5000}, Bytes{40'000}};
  const auto payload = [&](std::uint64_t number) {
    return pattern(kSizes[number % kSizes.size()], number);
  };
  std::deque<Message> held;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    ASSERT_TRUE(out.send(payload(number), {.deadline = soon()}));
    auto message = in.receive(soon());
    ASSERT_TRUE(message);
    held.push_back(std::move(*message));
    if (held.size() < 5) continue;
    ASSERT_TRUE(same(held.front().bytes(), payload(number - 4))) << number;
    held.pop_front();
  }
  for (const Bytes size : kSizes)
    EXPECT_THAT(out.explain(size).because, Contains(HasSubstr("copies took"))) << size;
}

// A vector's memory is as large as its capacity; what is behind its end is somebody's leftovers.
TEST_F(ChannelPool, OfAVectorThatIsMovedNoMoreIsSentThanIsInIt) {
  Producer out = producer();
  Consumer in = consumer();
  Pool pool = out.pool();
  std::memset(pool.allocate(1 << 20)->bytes().data(), 0x5a, 1 << 20);
  PoolResource resource(pool);
  std::pmr::vector<float> values(&resource);
  for (int i = 0; i < 100'000; ++i) values.push_back(static_cast<float>(i));
  ASSERT_GT(values.capacity(), values.size());
  const ConstByteSpan wanted = std::as_bytes(std::span(values));
  const auto block = [&] { return *pool.find(wanted.data()); };
  ASSERT_TRUE(out.send(Draft().move(block(), wanted.size()), {.deadline = soon()}));
  const auto alone = in.receive(soon());
  ASSERT_TRUE(alone);
  EXPECT_TRUE(same(alone->bytes(), wanted));
  EXPECT_EQ(alone->bytes().size(), 400'000u);
  ASSERT_TRUE(out.send(Draft().move(block(), 100).copy(wanted.first(7)), {.deadline = soon()}));
  const auto two = in.receive(soon());
  ASSERT_TRUE(two);
  EXPECT_TRUE(same(two->segment(0).bytes, wanted.first(100)));
  EXPECT_TRUE(same(two->segment(1).bytes, wanted.first(7)));
  ASSERT_TRUE(out.send(Draft().move(block(), 0), {.deadline = soon()}));
  EXPECT_EQ(in.receive(soon())->bytes().size(), 0u);
  EXPECT_EQ(out.metrics().copied_bytes[0], 7u) << "all else went without a copy";
}

// As `gantry ls` shows it.
TEST_F(ChannelPool, TheNewestCopyHasNoBytesThatWereMoved) {
  Producer out = producer();
  Consumer in = consumer();
  const auto copied = pattern(5000, 1);
  Draft draft = Draft().copy(copied).move(*out.pool().allocate(100'000), 100'000);
  ASSERT_TRUE(out.send(std::move(draft), {.deadline = soon()}));
  const auto channels = list_channels(directory_.path());
  ASSERT_TRUE(channels);
  ASSERT_EQ(channels->size(), 1u);
  EXPECT_EQ(channels->front().path.bytes, 5000u);
  EXPECT_EQ(channels->front().producer.copied_bytes[0], 5000u);
}

TEST_F(ChannelPool, ABlockOfAContainerNeedsASizeThatItHas) {
  Producer out = producer();
  Pool pool = out.pool();
  PoolResource resource(pool);
  std::optional<std::pmr::vector<std::byte>> values(std::in_place, std::size_t{5000}, &resource);
  const auto error = [&](Result<void> sent) { return sent ? Error{} : sent.error(); };
  const auto block = [&] { return *pool.find(values->data()); };
  for (const Error& refused : {error(out.send(block(), {.deadline = soon()})),
                               error(out.send(Draft().move(block()), {.deadline = soon()}))}) {
    EXPECT_EQ(refused.code, Code::invalid_argument);
    EXPECT_NE(refused.message.find("5000 bytes is a container's"), std::string::npos)
        << refused.message;
    EXPECT_NE(refused.hint.find("Draft::move(block, bytes)"), std::string::npos);
  }
  const Error beyond = error(out.send(Draft().move(block(), 5001), {.deadline = soon()}));
  EXPECT_EQ(beyond.code, Code::invalid_argument);
  EXPECT_NE(beyond.message.find("5001 bytes of a block of 5000"), std::string::npos);
  Block kept = block();
  values.reset();  // the container is gone; what it filled is not known any more
  const Error late = error(out.send(kept.share(), {.deadline = soon()}));
  EXPECT_NE(late.message.find("5000 bytes is a container's"), std::string::npos) << late.message;
  EXPECT_TRUE(out.send(Draft().move(std::move(kept), 4000), {.deadline = soon()}));
  EXPECT_TRUE(out.send(*pool.allocate(5000), {.deadline = soon()})) << "and the next is anybody's";
}

TEST_F(ChannelPool, OnlyBlocksOfItsOwnPoolArePublished) {
  Producer out = producer();
  Consumer in = consumer();
  Pool other = *Pool::create({.slab_bytes = kMiB});
  EXPECT_EQ(out.send(*other.allocate(1000), {.deadline = soon()}).error().code,
            Code::invalid_argument);
  EXPECT_EQ(out.send(Block(), {.deadline = soon()}).error().code, Code::invalid_argument);
  EXPECT_EQ(other.report().blocks, 0u);
}

TEST_F(ChannelPool, MemoryThatNobodyElseCanMapIsRefused) {
  options_.memory = *Pool::create({.slab_bytes = kMiB, .region = {.shareable = false}});
  const auto refused = make_producer("frames", options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_NE(refused.error().hint, "");
}

TEST_F(ChannelPool, WhatWasReleasedIsNotKeptFromWhoAllocatesToo) {
  options_.pool.budget_bytes = 8 * kMiB;
  Producer out = producer();
  Consumer in = consumer();
  const auto send_some = [&] {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(out.send(pattern(100'000, 1), soon()));
      ASSERT_TRUE(in.receive(soon()));
    }
    ASSERT_TRUE(out.loan(100'000, soon()));  // looks at what was given back
  };
  send_some();
  Pool pool = out.pool();
  for (int turn = 0; turn < 2; ++turn) {
    auto block = pool.allocate(8 * kMiB);
    ASSERT_TRUE(block) << block.error().message;
    *block = Block();
    send_some();
  }
}

TEST_F(ChannelPool, TwoChannelsShareAPool) {
  Pool pool = *Pool::create({.slab_bytes = kMiB, .name = "shared"});
  options_.memory = pool;
  Producer out = producer();
  Consumer in = consumer();
  auto second = make_producer("second", options_);
  ASSERT_TRUE(second);
  auto in_second = Consumer::open("second", consumer_options(options_), soon());
  ASSERT_TRUE(in_second);
  auto block = pool.allocate(5000);
  std::memset(block->bytes().data(), 7, 5000);
  ASSERT_TRUE(second->send(block->share(), {.deadline = soon()}));
  ASSERT_TRUE(out.send(std::move(*block), {.deadline = soon()}));
  EXPECT_EQ(in.receive(soon())->bytes()[4999], std::byte{7});
  EXPECT_EQ(in_second->receive(soon())->bytes()[4999], std::byte{7});
}

TEST_F(ChannelPool, WhatIsHeldWhenTheProducerEndsIsNeverUsedAgain) {
  Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 8 * kMiB});
  options_.memory = pool;
  Message held;
  {
    Producer out = producer();
    Consumer in = consumer();
    ASSERT_TRUE(out.send(pattern(500'000, 1), soon()));
    held = *in.receive(soon());
  }
  std::vector<Block> others;
  for (auto block = pool.allocate(100'000); block; block = pool.allocate(100'000)) {
    std::memset(block->bytes().data(), 1, block->bytes().size());
    others.push_back(std::move(*block));
  }
  EXPECT_GT(others.size(), 50u);
  EXPECT_TRUE(same(held.bytes(), pattern(500'000, 1)));
}

// What its consumers still map counts: slabs that were dropped for larger ones, too.
TEST_F(ChannelPool, DroppedSlabsCountUntilTheConsumerLetsGo) {
  options_.pool.budget_bytes = 8 * kMiB;
  options_.slots = 2;
  Producer out = producer();
  const Pool pool = out.pool();
  const auto payload = pattern(8 * kMiB, 1);
  std::thread taking([&] {
    Consumer in = consumer();
    while (const auto message = in.receive(soon()))
      EXPECT_TRUE(same(message->bytes(), ConstByteSpan(payload).first(message->bytes().size())));
  });
  ASSERT_TRUE(out.wait_for_consumer(soon()));
  for (int round = 0; round < 3; ++round)
    for (Bytes size = kMiB; size <= 8 * kMiB; size += kMiB) {
      ASSERT_TRUE(out.send(ConstByteSpan(payload).first(size), soon())) << size;
      const PoolReport report = pool.report();
      EXPECT_LE(report.slab_bytes + report.lingering_bytes, report.budget_bytes) << size;
    }
  ASSERT_TRUE(out.close(soon()));
  taking.join();
}

// One that is in no call can let nothing go, and holds nobody up for ever.
TEST_F(ChannelPool, WhoLetsNothingGoIsNotWaitedForWithoutEnd) {
  options_.pool.budget_bytes = 8 * kMiB;
  Producer out = producer();
  Consumer in = consumer();
  ASSERT_TRUE(out.send(pattern(kMiB, 1), soon()));
  ASSERT_TRUE(in.receive(soon()));
  ASSERT_TRUE(out.send(pattern(8 * kMiB, 2), soon()));
  EXPECT_EQ(out.pool().report().lingering_bytes, kMiB);
  {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_TRUE(same(message->bytes(), pattern(8 * kMiB, 2)));
  }
  ASSERT_TRUE(out.loan(100, soon()));  // looks at what was let go
  EXPECT_EQ(out.pool().report().lingering_bytes, 0u);
}

// What is kept for late joiners holds nobody up: the oldest of it goes first.
TEST_F(ChannelPool, AHistoryGivesWayWhereMemoryRunsOut) {
  options_.pool.budget_bytes = 4 * kMiB;
  options_.consumers = 2;
  options_.slots = options_.history = 6;
  Producer out = producer();
  Consumer in = consumer();
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto payload = pattern(kMiB - 4096, seed);
    const auto sent =
        out.send(payload, {.deadline = soon(), .mode = SendMode::whole, .user = seed});
    ASSERT_TRUE(sent) << seed << ": " << sent.error().message;
    EXPECT_TRUE(same(in.receive(soon())->bytes(), payload));
  }
  Consumer late = consumer();
  std::uint64_t last = 0;
  for (auto kept = late.receive(Deadline::now()); kept; kept = late.receive(Deadline::now())) {
    EXPECT_TRUE(same(kept->bytes(), pattern(kMiB - 4096, kept->info().user)));
    EXPECT_TRUE(last == 0 || kept->info().user == last + 1);
    last = kept->info().user;
  }
  EXPECT_EQ(last, 12u) << "the newest is there";
}

}  // namespace
}  // namespace gantry
