#include "sync/overwriting_ring.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/test_effort.hpp"

namespace gantry {
namespace {

constexpr std::size_t kWords = 3;
using Ring = OverwritingRing<kWords>;

struct RingMemory {
  explicit RingMemory(std::size_t cells) : cells_(cells) {}
  [[nodiscard]] Ring ring() noexcept { return {head_, cells_}; }
  std::atomic<std::uint64_t> head_{0};
  std::vector<Ring::Cell> cells_;
};

TEST(OverwritingRing, KeepsTheNewestEventsAndNoOthers) {
  RingMemory memory(4);
  Ring ring = memory.ring();
  EXPECT_FALSE(ring.read(0));
  for (std::uint64_t i = 0; i < 6; ++i) ring.write({i, 10 * i, 100 * i});
  EXPECT_EQ(ring.written(), 6u);
  for (std::uint64_t i = 0; i < 2; ++i) EXPECT_FALSE(ring.read(i)) << i;
  for (std::uint64_t i = 2; i < 6; ++i)
    EXPECT_EQ(ring.read(i), (Ring::Event{i, 10 * i, 100 * i})) << i;
  EXPECT_FALSE(ring.read(6));
}

// Whoever dies with a number and without its stamp leaves one hole.
TEST(OverwritingRing, AnEventThatWasNeverCompletedIsAHole) {
  RingMemory memory(4);
  Ring ring = memory.ring();
  ring.write({1, 1, 1});
  memory.head_.fetch_add(1, std::memory_order_relaxed);
  ring.write({3, 3, 3});
  EXPECT_TRUE(ring.read(0));
  EXPECT_FALSE(ring.read(1));
  EXPECT_TRUE(ring.read(2));
}

// I1 to I3: what a reader gets is one event, whole, and the one that it asked for. Seen to fail:
// the stamp stored before the words; read() without its look at the head.
TEST(OverwritingRing, WhatIsReadIsWholeWhileItIsOverwritten) {
  constexpr std::uint64_t kCells = 8;
  constexpr unsigned kWriters = 2;
  RingMemory memory(kCells);
  Ring ring = memory.ring();
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (unsigned i = 0; i < kWriters; ++i)
    writers.emplace_back([&memory, &done, i] {
      Ring own = memory.ring();
      for (std::uint64_t n = i; !done.load(std::memory_order_relaxed); n += kWriters)
        own.write({n, n * 3, n * 7});
    });
  std::uint64_t read = 0;
  const std::uint64_t wanted = 200'000 / kTestStride;
  for (std::uint64_t newest = 0; read < wanted; newest = ring.written())
    for (std::uint64_t i = newest < kCells ? 0 : newest - kCells; i < newest; ++i) {
      const auto event = ring.read(i);
      if (!event) continue;
      ++read;
      ASSERT_EQ((*event)[1], (*event)[0] * 3);
      ASSERT_EQ((*event)[2], (*event)[0] * 7);
    }
  done.store(true, std::memory_order_relaxed);
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace gantry
