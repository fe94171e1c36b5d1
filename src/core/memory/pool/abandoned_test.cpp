#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <gantry/memory.hpp>

#include "core/base/sizes.hpp"

// Memory that another process may still read when its last handle here goes.
namespace gantry {
namespace {

Pool make_pool() {
  return *Pool::create({.slab_bytes = 4 * kMiB, .budget_bytes = 8 * kMiB});
}

TEST(Abandoned, ASlabOfWhichSomethingWasAbandonedServesNothingNew) {
  Pool pool = make_pool();
  auto abandoned = pool.allocate(kMiB);
  auto kept = pool.allocate(kMiB);
  auto live = pool.allocate(kMiB);
  ASSERT_TRUE(abandoned && kept && live);
  const std::uint32_t slab = live->slab();
  *kept = Block();
  abandoned->abandon();
  EXPECT_EQ(pool.report().largest_free_bytes, 0u);
  EXPECT_EQ(pool.report().free_bytes, 0u);
  EXPECT_NE(pool.allocate(kMiB)->slab(), slab);
  *live = Block();
  EXPECT_NE(pool.allocate(kMiB)->slab(), slab);
  pool.trim();
  EXPECT_EQ(pool.slab(slab), nullptr) << "nothing of it is in use any more";
}

// A departed consumer reads what a history, or a user, has a handle to as well.
TEST(Abandoned, WhatOneHandleAbandonsNoOtherGivesBack) {
  for (const bool abandoned_first : {true, false}) {
    Pool pool = make_pool();
    auto first = pool.allocate(kMiB);
    ASSERT_TRUE(first);
    Block second = first->share();
    const std::uint32_t slab = second.slab();
    std::memset(second.bytes().data(), 7, kMiB);
    const std::shared_ptr<const Region> read_elsewhere = pool.slab(slab);
    const std::byte* const data = second.bytes().data();
    if (abandoned_first) {
      first->abandon();
      EXPECT_EQ(pool.report().live_bytes, kMiB);
      EXPECT_TRUE(second.is_shared()) << "another process reads it";
      second = Block();
    } else {
      *first = Block();
      second.abandon();
    }
    EXPECT_EQ(pool.report().live_bytes, 0u);
    EXPECT_EQ(std::count(data, data + kMiB, std::byte{7}), static_cast<std::ptrdiff_t>(kMiB));
    EXPECT_NE(pool.allocate(kMiB)->slab(), slab);
  }
}

}  // namespace
}  // namespace gantry
