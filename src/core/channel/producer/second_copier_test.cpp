#include "core/channel/producer/second_copier.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "core/channel/test_support.hpp"

// Two threads that copy one payload: alone, without a channel around. Under ThreadSanitizer this is
// the twin of the algorithm; seen to fail with [D] or [A] relaxed, and with a withdraw() that does
// not wait.
namespace gantry {
namespace {

using test::pattern;
using test::same;

std::unique_ptr<Lane> make_lane() {
  return *test::PlainEngine().open_lane({});
}

TEST(SharedChunks, AChunkIsTakenOnceByWhoever) {
  SharedChunks chunks(4);
  EXPECT_EQ(chunks.take(), std::nullopt) << "nothing is allowed yet";
  chunks.allow(3);
  EXPECT_EQ(chunks.left(), 3u);
  EXPECT_EQ(chunks.exchange(), 0u);
  EXPECT_EQ(chunks.take(), 1u);
  EXPECT_EQ(chunks.prefix(), 0u) << "the second still has the first in hand";
  EXPECT_FALSE(chunks.second_is_done());
  EXPECT_EQ(chunks.exchange(), 2u);
  EXPECT_EQ(chunks.prefix(), 2u);
  EXPECT_EQ(chunks.exchange(), std::nullopt);
  EXPECT_TRUE(chunks.second_is_done());
  EXPECT_EQ(chunks.prefix(), 3u);
  chunks.allow(99);
  EXPECT_EQ(chunks.left(), 1u) << "there are no more than there are";
  chunks.stop();
  EXPECT_EQ(chunks.left(), 0u);
  EXPECT_EQ(chunks.exchange(), std::nullopt);
}

TEST(SharedChunks, WhatFailedIsNeverCounted) {
  SharedChunks chunks(4);
  chunks.allow(4);
  EXPECT_EQ(chunks.take(), 0u);
  EXPECT_EQ(chunks.exchange(), 1u);
  EXPECT_EQ(chunks.take(), 2u);
  chunks.fail();
  EXPECT_TRUE(chunks.second_is_done());
  EXPECT_TRUE(chunks.has_failed());
  EXPECT_EQ(chunks.prefix(), 1u);
}

/// Copies as a sender does that is its own consumer, too: what is there is looked at, and only then
/// may its place be used again. Returns how many chunks the second had.
std::uint64_t copy_and_read(SecondCopier& second, const ChunkPlan& plan) {
  SharedCopy shared(plan);
  const std::uint64_t window = plan.window == 0 ? plan.count() : plan.window / plan.chunk;
  std::uint64_t mine = 0, read = 0;
  shared.chunks.allow(window);
  while (read < plan.count()) {
    if (shared.chunks.left() > 1) second.invite(shared);
    if (const auto chunk = shared.chunks.take()) {
      const Move move = plan.move_of(*chunk);
      std::copy_n(move.source, move.bytes, move.destination);
      ++mine;
    }
    for (const std::uint64_t there = shared.chunks.prefix(); read < there; ++read) {
      const Move move = plan.move_of(read);
      EXPECT_TRUE(same({move.destination, move.bytes}, {move.source, move.bytes})) << read;
    }
    shared.chunks.allow(read + window);
  }
  second.withdraw();
  return plan.count() - mine;
}

TEST(SecondCopier, TogetherTheyCopyEachChunkOnce) {
  SecondCopier second(make_lane(), std::chrono::microseconds(20), {});
  const auto from = pattern(kMiB + 5, 1);
  std::vector<std::byte> to(from.size());
  std::uint64_t seconds = 0;
  for (int turn = 0; turn < 300; ++turn) {
    std::fill(to.begin(), to.end(), std::byte{});
    seconds += copy_and_read(second, {to, from, 4096, 0, CacheUse::automatic});
    ASSERT_TRUE(same(to, from));
  }
  EXPECT_GT(seconds, 0u);
}

TEST(SecondCopier, AWindowIsFilledAgainOnlyWhereItWasRead) {
  SecondCopier second(make_lane(), std::chrono::microseconds(20), {});
  const auto from = pattern(kMiB + 5, 1);
  std::vector<std::byte> window(std::size_t{8} * 4096);
  std::uint64_t seconds = 0;
  for (int turn = 0; turn < 300; ++turn)
    seconds += copy_and_read(second, {window, from, 4096, window.size(), CacheUse::automatic});
  EXPECT_GT(seconds, 0u);
}

// The memory goes right after withdraw(): ThreadSanitizer and AddressSanitizer see who is late.
TEST(SecondCopier, AfterWithdrawItTouchesNothing) {
  SecondCopier second(make_lane(), std::chrono::microseconds(20), {});
  const auto from = pattern(Bytes{64} * 4096, 1);
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<std::byte> to(from.size());
    auto shared = std::make_unique<SharedCopy>(ChunkPlan{to, from, 4096, 0, CacheUse::automatic});
    shared->chunks.allow(64);
    second.invite(*shared);
    for (int i = 0; i < turn % 64; ++i) static_cast<void>(shared->chunks.take());
    second.withdraw();
    shared.reset();
  }
}

TEST(SecondCopier, WhatItCannotReadItSays) {
  SecondCopier second(make_lane(), std::chrono::microseconds(20), {});
  void* const closed = ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  std::vector<std::byte> to(8192);
  const ConstByteSpan from(static_cast<std::byte*>(closed), 8192);
  SharedCopy shared({to, from, 4096, 0, CacheUse::automatic});
  shared.chunks.allow(2);
  second.invite(shared);
  while (!shared.chunks.has_failed()) std::this_thread::yield();
  second.withdraw();
  EXPECT_EQ(shared.failure.cause, Cause::unreadable);
  EXPECT_EQ(shared.chunks.prefix(), 0u);
  ::munmap(closed, 8192);
}

// It would put down what it failed at as if that were there.
TEST(SecondCopier, WhoFailedIsNotInvitedAgain) {
  SecondCopier second(make_lane(), std::chrono::microseconds(20), {});
  const test::BrokenPayload payload(64 * 4096, 0);
  std::vector<std::byte> to(64 * 4096);
  SharedCopy shared({to, payload.bytes(), 4096, 0, CacheUse::automatic});
  shared.chunks.allow(64);
  second.invite(shared);
  while (!shared.chunks.has_failed()) std::this_thread::yield();
  for (int turn = 0; turn < 10'000; ++turn) {
    second.invite(shared);
    std::this_thread::yield();
  }
  second.withdraw();
  EXPECT_EQ(shared.chunks.prefix(), 0u);
  EXPECT_EQ(shared.chunks.left(), 63u);
}

TEST(SecondCopier, OneThatWasNeverInvitedHasNoThread) {
  SecondCopier second(make_lane(), std::chrono::microseconds(20), {});
  second.withdraw();
}

}  // namespace
}  // namespace gantry
