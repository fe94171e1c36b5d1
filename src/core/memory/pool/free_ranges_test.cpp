#include "core/memory/pool/free_ranges.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace gantry {
namespace {

TEST(FreeRanges, TakesTheTightestThenTheLowest) {
  FreeRanges free(100);
  EXPECT_EQ(free.take(10, 1), 0u);
  EXPECT_EQ(free.take(20, 1), 10u);
  EXPECT_EQ(free.take(30, 1), 30u);
  free.give(10, 20);
  EXPECT_EQ(free.take(25, 1), 60u);
  EXPECT_EQ(free.take(12, 1), 85u) << "of 20 and 15 the tighter";
  EXPECT_EQ(free.take(20, 1), 10u);
  EXPECT_EQ(free.take(16, 1), std::nullopt);
}

TEST(FreeRanges, AlignsAndKeepsWhatThatLeavesOver) {
  FreeRanges free(100);
  EXPECT_EQ(free.take(3, 1), 0u);
  EXPECT_EQ(free.take(16, 16), 16u);
  EXPECT_EQ(free.take(13, 1), 3u) << "the gap before";
  EXPECT_EQ(free.take(60, 64), std::nullopt);
  EXPECT_EQ(free.largest(), 68u);
}

TEST(FreeRanges, ARunComesBackInPieces) {
  FreeRanges free(100);
  EXPECT_EQ(free.take_run(10, 4, 1), 0u);
  for (const Bytes offset : {10u, 30u, 0u}) free.give(offset, 10);
  EXPECT_FALSE(free.is_all_free());
  free.give(20, 10);
  EXPECT_TRUE(free.is_all_free());
  EXPECT_EQ(free.largest(), 100u);
  EXPECT_EQ(free.take_run(60, 2, 1), std::nullopt);
  EXPECT_TRUE(free.is_all_free());
}

TEST(FreeRanges, JoinsNeighboursOnBothSides) {
  FreeRanges free(30);
  ASSERT_EQ(free.take(10, 1), 0u);
  ASSERT_EQ(free.take(10, 1), 10u);
  ASSERT_EQ(free.take(10, 1), 20u);
  free.give(0, 10);
  free.give(20, 10);
  EXPECT_EQ(free.take(20, 1), std::nullopt);
  free.give(10, 10);
  EXPECT_TRUE(free.is_all_free());
  EXPECT_EQ(free.take(30, 1), 0u);
}

// Where the shortest free run of at least `size` begins; the end when there is none.
Bytes tightest(const std::vector<bool>& used, Bytes size) {
  Bytes best = used.size(), best_run = used.size() + 1;
  for (Bytes i = 0; i < used.size();) {
    Bytes run = 0;
    while (i + run < used.size() && !used[i + run]) ++run;
    if (run >= size && run < best_run) {
      best = i;
      best_run = run;
    }
    i += run + 1;
  }
  return best;
}

// Against the plainest model there is: a byte for each byte.
TEST(FreeRanges, AgreesWithAMapOfBytesUnderRandomUse) {
  constexpr Bytes kSize = 200;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    FreeRanges free(kSize);
    std::vector<bool> used(kSize);
    std::vector<std::pair<Bytes, Bytes>> taken;
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0 || taken.empty()) {
        const Bytes size = 1 + random() % 40;
        const auto offset = free.take(size, 1);
        ASSERT_EQ(offset.value_or(kSize), tightest(used, size));
        if (!offset) continue;
        for (Bytes i = 0; i < size; ++i) used[*offset + i] = true;
        taken.emplace_back(*offset, size);
      } else {
        const std::size_t which = random() % taken.size();
        const auto [offset, size] = taken[which];
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
        for (Bytes i = 0; i < size; ++i) used[offset + i] = false;
        free.give(offset, size);
      }
    }
    for (const auto& [offset, size] : taken) free.give(offset, size);
    EXPECT_TRUE(free.is_all_free());
  }
}

}  // namespace
}  // namespace gantry
