#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <gantry/memory.hpp>
#include <random>
#include <thread>
#include <vector>

namespace gantry {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20;

Pool make_pool(Bytes slab, Bytes budget) {
  return *Pool::create({slab, budget});
}

TEST(Pool, GivesAlignedBlocksOutOfOneSlab) {
  Pool pool = make_pool(8 * kMiB, 64 * kMiB);
  auto small = pool.allocate(1);
  auto large = pool.allocate(3 * kMiB + 1);
  ASSERT_TRUE(small && large);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small->bytes().data()) % Pool::kLineAlignment, 0u);
  EXPECT_EQ(large->bytes().size(), 3 * kMiB + 1);
  EXPECT_EQ(small->slab(), large->slab());
  const auto region = pool.slab(large->slab());
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->data() + large->offset(), large->bytes().data());
  EXPECT_EQ(pool.report().slabs, 1u);
  EXPECT_EQ(pool.report().live_bytes, 3 * kMiB + 2);
}

TEST(Pool, UsesTheSameMemoryAgain) {
  Pool pool = make_pool(8 * kMiB, 64 * kMiB);
  const std::byte* first = pool.allocate(kMiB)->bytes().data();
  EXPECT_EQ(pool.allocate(kMiB)->bytes().data(), first);
  EXPECT_EQ(pool.report().live_bytes, 0u);
  EXPECT_EQ(pool.report().peak_bytes, kMiB);
}

TEST(Pool, KeepsItsBudget) {
  Pool pool = make_pool(4 * kMiB, 8 * kMiB);
  auto first = pool.allocate(5 * kMiB);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = pool.allocate(4 * kMiB);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::out_of_memory);
  EXPECT_FALSE(second.error().hint.empty());
  *first = Block();
  EXPECT_TRUE(pool.allocate(8 * kMiB)) << "an empty slab makes room for a larger one";
}

TEST(Pool, NamesWhatCanNeverBe) {
  Pool pool = make_pool(4 * kMiB, 8 * kMiB);
  EXPECT_EQ(pool.allocate(0).error().code, Code::invalid_argument);
  EXPECT_EQ(pool.allocate(9 * kMiB).error().code, Code::too_large);
  EXPECT_EQ(pool.allocate(~Bytes{0}).error().code, Code::too_large);
  EXPECT_EQ(Pool::create({0, 0}).error().code, Code::invalid_argument);
  const auto report = Pool::create({})->report();
  EXPECT_GT(report.budget_bytes, 0u);
}

TEST(Pool, TrimGivesBackEmptySlabsOnly) {
  Pool pool = make_pool(2 * kMiB, 64 * kMiB);
  auto kept = pool.allocate(kMiB);
  {
    auto dropped = pool.allocate(2 * kMiB);
  }
  EXPECT_EQ(pool.report().slabs, 2u);
  EXPECT_EQ(pool.trim(), 2 * kMiB);
  EXPECT_EQ(pool.report().slabs, 1u);
  std::memset(kept->bytes().data(), 1, kept->bytes().size());
}

TEST(Pool, BlocksMayOutliveTheHandle) {
  Block block;
  {
    Pool pool = make_pool(2 * kMiB, 4 * kMiB);
    block = *pool.allocate(kMiB);
  }
  std::memset(block.bytes().data(), 7, block.bytes().size());
  EXPECT_EQ(block.bytes().back(), std::byte{7});
}

// Property: live blocks never overlap and keep their bytes, whoever allocates beside them.
TEST(Pool, ThreadsDoNotDisturbEachOther) {
  Pool pool = make_pool(4 * kMiB, 64 * kMiB);
  const auto use = [&pool](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Block> live;
    for (int step = 0; step < 300; ++step) {
      if (live.size() < 6) {
        auto block = pool.allocate(1 + random() % (200 * 1024));
        ASSERT_TRUE(block) << block.error().message;
        std::memset(block->bytes().data(), static_cast<int>(seed), block->bytes().size());
        live.push_back(std::move(*block));
      }
      if (random() % 3 != 0) continue;
      const std::size_t which = random() % live.size();
      const ByteSpan bytes = live[which].bytes();
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [seed](std::byte byte) {
        return byte == static_cast<std::byte>(seed);
      }));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
  };
  std::thread other(use, 1);
  use(2);
  other.join();
  EXPECT_EQ(pool.report().live_bytes, 0u);
  EXPECT_EQ(pool.report().blocks, 0u);
}

}  // namespace
}  // namespace gantry
