#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <gantry/memory.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/base/sizes.hpp"
#include "core/base/test_fork.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;

Pool make_pool(Bytes slab, Bytes budget) {
  return *Pool::create({.slab_bytes = slab, .budget_bytes = budget});
}

std::uintptr_t address(const Block& block) {
  return reinterpret_cast<std::uintptr_t>(block.bytes().data());
}

TEST(Pool, GivesBlocksOutOfOneSlab) {
  Pool pool = make_pool(8 * kMiB, 64 * kMiB);
  auto small = pool.allocate(1);
  auto large = pool.allocate(3 * kMiB + 1);
  ASSERT_TRUE(small && large);
  EXPECT_EQ(large->bytes().size(), 3 * kMiB + 1);
  EXPECT_EQ(small->slab(), large->slab());
  const auto region = pool.slab(large->slab());
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->data() + large->offset(), large->bytes().data());
  const PoolReport report = pool.report();
  EXPECT_EQ(report.slabs, 1u);
  EXPECT_EQ(report.live_bytes, 3 * kMiB + 2);
  EXPECT_EQ(report.blocks, 2u);
  EXPECT_EQ(report.free_bytes, 8 * kMiB - report.live_bytes);
}

TEST(Pool, AlignsAsAsked) {
  Pool pool = make_pool(8 * kMiB, 64 * kMiB);
  std::vector<Block> held;
  for (const Bytes size : {1u, 100u, 4096u, 5000u, 70'000u})
    for (Bytes alignment = 1; alignment <= 2 * kMiB; alignment *= 2) {
      auto block = pool.allocate(size, {.alignment = alignment});
      ASSERT_TRUE(block) << block.error().message;
      EXPECT_EQ(address(*block) % alignment, 0u) << size << " at " << alignment;
      held.push_back(std::move(*block));
    }
  EXPECT_EQ(address(*pool.allocate(1)) % Pool::kLineAlignment, 0u);
  EXPECT_EQ(address(*pool.allocate(4096)) % Pool::kPageAlignment, 0u);
  for (const Bytes bad : {3u, 65u, 4095u})
    EXPECT_EQ(pool.allocate(10, {.alignment = bad}).error().code, Code::invalid_argument);
}

TEST(Pool, UsesTheSameMemoryAgain) {
  Pool pool = make_pool(8 * kMiB, 64 * kMiB);
  for (const Bytes size : {Bytes{100}, Bytes{9000}, kMiB, 5 * kMiB}) {
    const std::byte* first = pool.allocate(size)->bytes().data();
    EXPECT_EQ(pool.allocate(size)->bytes().data(), first) << size;
    EXPECT_EQ(address(*pool.allocate(size, {.alignment = 4096})) % 4096, 0u);
  }
  const PoolReport report = pool.report();
  EXPECT_EQ(report.live_bytes, 0u);
  EXPECT_EQ(report.peak_bytes, 5 * kMiB);
  EXPECT_EQ(report.allocations, 12u);
  EXPECT_EQ(report.reuses, 7u) << "all but the first of a size, 100 bytes in a page being one";
}

TEST(Pool, KeepsItsBudgetAndNamesTheHolders) {
  Pool pool = make_pool(4 * kMiB, 8 * kMiB);
  const Tag frames = *pool.tag("frames");
  auto first = pool.allocate(5 * kMiB, {.tag = frames});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = pool.allocate(4 * kMiB);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::out_of_memory);
  EXPECT_THAT(second.error().message, HasSubstr("held by frames: 5.0 MiB in 1 block"));
  EXPECT_FALSE(second.error().hint.empty());
  *first = Block();
  EXPECT_TRUE(pool.allocate(8 * kMiB)) << "an empty slab makes room for a larger one";
}

TEST(Pool, WhatOthersKeptServesBeforeAnErrorDoes) {
  Pool pool = make_pool(4 * kMiB, 4 * kMiB);
  {
    std::vector<Block> pieces;  // all of the slab, in pieces that the thread keeps when they go
    for (auto piece = pool.allocate(8192); piece; piece = pool.allocate(8192))
      pieces.push_back(std::move(*piece));
    EXPECT_GE(pieces.size() * 8192, 4 * kMiB - 128 * 8192);
  }
  EXPECT_GT(pool.report().kept_bytes, 0u);
  const auto whole = pool.allocate(4 * kMiB);
  EXPECT_TRUE(whole) << whole.error().message;
}

TEST(Pool, NamesWhatCanNeverBe) {
  Pool pool = make_pool(4 * kMiB, 8 * kMiB);
  EXPECT_EQ(pool.allocate(0).error().code, Code::invalid_argument);
  EXPECT_EQ(pool.allocate(9 * kMiB).error().code, Code::too_large);
  EXPECT_EQ(pool.allocate(~Bytes{0}).error().code, Code::too_large);
  EXPECT_EQ(pool.allocate(1, {.alignment = Bytes{1} << 63}).error().code, Code::too_large);
  Pool boundless = *Pool::create({.slab_bytes = kMiB, .budget_bytes = ~Bytes{0}});
  for (const Bytes size : {~Bytes{0}, ~Bytes{0} - 4095, Bytes{1} << 62})
    EXPECT_EQ(boundless.allocate(size).error().code, Code::too_large) << size;
  EXPECT_EQ(Pool::create({.name = std::string(300, 'x')}).error().code, Code::invalid_argument);
  EXPECT_EQ(Pool::create({.slab_bytes = 0}).error().code, Code::invalid_argument);
  EXPECT_EQ(Pool::create({.slab_bytes = ~Bytes{0}}).error().code, Code::invalid_argument);
  EXPECT_EQ(Pool::create({.registrars = {nullptr}}).error().code, Code::invalid_argument);
  EXPECT_GT(Pool::create({})->report().budget_bytes, 0u);
}

TEST(Pool, FitsTheWholeBudgetInOneBlock) {
  // A size whose comfortable capacity is above the budget: exactly what was asked for must do.
  Pool pool = make_pool(kMiB, 33 * kMiB + 4096);
  const auto block = pool.allocate(33 * kMiB + 4000);
  ASSERT_TRUE(block) << block.error().message;
  EXPECT_EQ(pool.report().slab_bytes, 33 * kMiB + 4096);
}

TEST(Pool, AlignedBlocksAreReusedByTheirThread) {
  Pool pool = make_pool(kMiB, 4 * kMiB);
  for (const Bytes alignment : {Bytes{8}, Bytes{64}, Bytes{256}, Bytes{4096}}) {
    ASSERT_TRUE(pool.allocate(5000, {.alignment = alignment}));
    const auto before = pool.report().reuses;
    ASSERT_TRUE(pool.allocate(5000, {.alignment = alignment}));
    EXPECT_EQ(pool.report().reuses, before + 1) << alignment;
  }
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
  Block block, other;
  {
    Pool pool = make_pool(2 * kMiB, 4 * kMiB);
    block = *pool.allocate(kMiB);
    other = *pool.allocate(100);
  }
  other = Block();
  std::memset(block.bytes().data(), 7, block.bytes().size());
  EXPECT_EQ(block.bytes().back(), std::byte{7});
}

TEST(Pool, SharedMemoryGoesBackWithTheLastHandle) {
  Pool pool = make_pool(2 * kMiB, 4 * kMiB);
  auto first = pool.allocate(kMiB);
  Block second = first->share();
  const std::byte* const data = second.bytes().data();
  *first = Block();
  EXPECT_EQ(pool.report().live_bytes, kMiB);
  EXPECT_EQ(second.bytes().data(), data);
  second = Block();
  EXPECT_EQ(pool.report().live_bytes, 0u);
}

TEST(Pool, DetachedBlocksAreFoundByAddress) {
  Pool pool = make_pool(2 * kMiB, 4 * kMiB);
  Pool stranger = make_pool(2 * kMiB, 4 * kMiB);
  std::byte* const data = pool.allocate(1000)->detach();
  std::byte outside{};
  for (std::byte* bad : {data + 1, &outside, data - 1})
    EXPECT_EQ(pool.adopt(bad).error().code, Code::invalid_argument);
  EXPECT_EQ(stranger.adopt(data).error().code, Code::invalid_argument);
  {
    const auto inside = pool.find(data + 999);
    ASSERT_TRUE(inside) << inside.error().message;
    EXPECT_EQ(inside->bytes().size(), 1000u);
    EXPECT_TRUE(pool.owns(*inside) && !stranger.owns(*inside));
    EXPECT_EQ(pool.find(data + 1000).error().code, Code::invalid_argument) << "behind its size";
  }
  {
    const auto back = pool.adopt(data);
    EXPECT_TRUE(back);
  }
  EXPECT_THAT(pool.adopt(data).error().message, HasSubstr("given back already"));
  EXPECT_FALSE(pool.find(data));
  const auto held = pool.allocate(1000);
  EXPECT_THAT(pool.adopt(held->bytes().data()).error().message, HasSubstr("not detached"));
}

TEST(Pool, ReportsHoldersByTag) {
  Pool pool = make_pool(8 * kMiB, 64 * kMiB);
  const Tag a = *pool.tag("a"), b = *pool.tag("b");
  EXPECT_EQ(pool.tag("a")->number, a.number);
  const auto one = pool.allocate(1000, {.tag = a});
  const auto two = pool.allocate(kMiB, {.tag = b});
  const auto three = pool.allocate(3000, {.tag = a});
  const auto holders = pool.report().holders;
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].tag, "b");
  EXPECT_EQ(holders[1].bytes, 4000u);
  EXPECT_EQ(holders[1].blocks, 2u);
  EXPECT_LT(holders[1].oldest, std::chrono::hours(1));
}

TEST(Pool, SlabsLargerThanTheMachineAreMadeAsLargeAsNeeded) {
  Pool pool = *Pool::create({.slab_bytes = Bytes{1} << 45, .budget_bytes = Bytes{1} << 46});
  const auto block = pool.allocate(4096);
  ASSERT_TRUE(block) << block.error().message;
}

TEST(Pool, NamesThreeHoldersWhateverTheirTags) {
  Pool pool = make_pool(kMiB, kMiB);
  std::vector<Block> held;
  for (int i = 0; i < 10; ++i)
    held.push_back(*pool.allocate(100'000, {.tag = *pool.tag("cam:" + std::to_string(i))}));
  const std::string message = pool.allocate(100'000).error().message;
  std::size_t named = 0;
  for (std::size_t at = message.find("cam:"); at != std::string::npos;
       at = message.find("cam:", at + 1))
    ++named;
  EXPECT_EQ(named, 3u) << message;
}

TEST(Pool, ReportsWhatIsKeptAsRoom) {
  Pool pool = make_pool(4 * kMiB, 4 * kMiB);
  ASSERT_TRUE(pool.allocate(4 * kMiB));
  EXPECT_EQ(pool.report().free_bytes, 4 * kMiB);
  EXPECT_EQ(pool.report().largest_free_bytes, 4 * kMiB);
}

TEST(Pool, TakingABlockOverEndsTheOneThatWasThere) {
  Pool pool = make_pool(kMiB, kMiB);
  Block held = *pool.allocate(1000);
  Block other = *pool.allocate(2000);
  held = std::move(other);
  EXPECT_EQ(pool.report().live_bytes, 2000u);
  Block& same = held;
  held = std::move(same);
  EXPECT_EQ(pool.report().live_bytes, 2000u);
}

// Whatever a thread held locked at the fork stays locked in the child.
TEST(Pool, AForkedChildWaitsForNobody) {
  if (const char* why = no_busy_fork()) GTEST_SKIP() << why;
  Pool pool = make_pool(kMiB, 4 * kMiB);
  auto block = pool.allocate(1000);
  ASSERT_TRUE(block);
  std::atomic<bool> over{false};
  std::thread busy([&] {
    while (!over.load()) static_cast<void>(pool.report());
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      const bool refused = !pool.allocate(100) && !pool.tag("t") && !pool.find(nullptr) &&
                           !pool.adopt(nullptr) && pool.trim() == 0 && pool.report().slabs == 0 &&
                           pool.slab(1) == nullptr;
      *block = Block();
      ::_exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  over.store(true);
  busy.join();
}

TEST(Pool, AForkedChildMayReadButNotAllocate) {
  Pool pool = make_pool(2 * kMiB, 4 * kMiB);
  auto block = pool.allocate(1000);
  ASSERT_TRUE(block && *block);
  const ByteSpan bytes = block->bytes();
  bytes[0] = std::byte{5};
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = bytes[0] == std::byte{5};
    good = good && pool.allocate(1000).error().code == Code::invalid_argument;
    *block = Block();
    {
      const Pool dropped = std::move(pool);
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bytes[0], std::byte{5}) << "what the child dropped is still ours";
  EXPECT_EQ(pool.report().blocks, 1u);
}

TEST(PoolAllocator, AVectorLivesInThePoolAndOutlivesItself) {
  Pool pool = make_pool(2 * kMiB, 4 * kMiB);
  Block kept;
  {
    std::vector<int, PoolAllocator<int>> values(1000, PoolAllocator<int>(pool, *pool.tag("v")));
    std::iota(values.begin(), values.end(), 0);
    kept = *pool.find(reinterpret_cast<const std::byte*>(values.data()));
    EXPECT_EQ(pool.report().holders[0].tag, "v");
  }
  int last = 0;
  ASSERT_EQ(kept.bytes().size(), 1000 * sizeof last);
  std::memcpy(&last, &kept.bytes()[999 * sizeof last], sizeof last);
  EXPECT_EQ(last, 999);
  kept = Block();
  EXPECT_EQ(pool.report().blocks, 0u);
}

TEST(PoolAllocator, AVectorThatWasMovedFromGoesOn) {
  Pool pool = make_pool(2 * kMiB, 4 * kMiB);
  std::vector<int, PoolAllocator<int>> values(PoolAllocator<int>{pool});
  values.push_back(1);
  const auto taken = std::move(values);
  values.clear();
  values.push_back(2);
  EXPECT_TRUE(values.get_allocator() == taken.get_allocator());
}

TEST(PoolResource, ServesPmrContainersAndThrowsWhatTheyExpect) {
  Pool pool = make_pool(kMiB, kMiB);
  PoolResource resource(pool);
  EXPECT_TRUE(resource.is_equal(PoolResource(pool)));
  std::pmr::vector<double> values(&resource);
  values.resize(10'000, 1.5);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), 15'000.0);
  EXPECT_THROW(values.resize(kMiB), std::bad_alloc);
  EXPECT_EQ(values.size(), 10'000u);
}

/// By a call that the sanitizer intercepts: this test's own code is not instrumented.
void read_by_call(const std::byte* at) {
  const volatile std::size_t size = 1;
  [[maybe_unused]] const volatile bool found = std::memchr(at, 1, size) != nullptr;
}

TEST(PoolDeathTest, WhatWasGivenBackIsNotReadUnnoticed) {
  if (!has_address_sanitizer()) GTEST_SKIP() << "needs AddressSanitizer";
  Pool pool = make_pool(kMiB, kMiB);
  auto block = pool.allocate(100);
  ASSERT_TRUE(block && *block);
  const std::byte* const stale = block->bytes().data();
  *block = Block();
  EXPECT_DEATH(read_by_call(stale), "use-after-poison");
}

TEST(PoolDeathTest, WhatLiesBehindABlockIsNotReadUnnoticed) {
  if (!has_address_sanitizer()) GTEST_SKIP() << "needs AddressSanitizer";
  Pool pool = make_pool(kMiB, kMiB);
  const auto block = pool.allocate(100);
  ASSERT_TRUE(block && *block);
  EXPECT_DEATH(read_by_call(block->bytes().data() + 100), "use-after-poison");
}

TEST(PoolDeathTest, AForeignAddressIsNoBlock) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Pool pool = make_pool(kMiB, kMiB);
  PoolAllocator<int> allocator(pool);
  int mine = 0;
  EXPECT_DEATH(allocator.deallocate(&mine, 1), "broken contract");
  int* const once = allocator.allocate(10);
  allocator.deallocate(once, 10);
  EXPECT_DEATH(allocator.deallocate(once, 10), "broken contract");
}

// Whether or not the machine has it: a slab serves, and what was not gathered has its reason.
TEST(Pool, SlabsAreGatheredInHugePagesOrItIsSaidWhyNot) {
  Pool pool = *Pool::create({.slab_bytes = Bytes{8} << 20, .collapse = true});
  const auto block = pool.allocate(Bytes{1} << 20);
  ASSERT_TRUE(block);
  for (const std::string& why : pool.report().collapse_errors)
    EXPECT_THAT(why, testing::HasSubstr("slab 1: gathering "));
  const Pool small = *Pool::create({.slab_bytes = 4096, .collapse = true});
  EXPECT_TRUE(small.report().collapse_errors.empty()) << "of no slab";
  const auto piece = Pool(small).allocate(100);
  ASSERT_TRUE(piece);
  EXPECT_THAT(small.report().collapse_errors,
              testing::ElementsAre(testing::HasSubstr("there is room for none")));
}

}  // namespace
}  // namespace gantry
