#include "device/pipeline/device_split.hpp"
#include "core/base/test_effort.hpp"

#include <gtest/gtest.h>

#include <random>

namespace gantry {
namespace {

TEST(DeviceSplit, IsByRate) {
  const double rates[] = {3, 1};
  EXPECT_EQ(split_by_rate({100, 500}, rates, 1), (std::vector<StepRange>{{100, 400}, {400, 500}}));
  const double one_sided[] = {0, 5};
  EXPECT_EQ(split_by_rate({0, 7}, one_sided, 1), (std::vector<StepRange>{{0, 0}, {0, 7}}));
  const double unknown[] = {0, 0};
  EXPECT_EQ(split_by_rate({0, 8}, unknown, 1), (std::vector<StepRange>{{0, 4}, {4, 8}}));
}

TEST(DeviceSplit, BordersLieAtMultiplesOfTheGrain) {
  const double rates[] = {1, 1, 1};
  for (const StepRange& range : split_by_rate({0, 10'000}, rates, 128))
    EXPECT_EQ(range.first % 128, 0u);
  EXPECT_EQ(split_by_rate({0, 3}, rates, 128),
            (std::vector<StepRange>{{0, 1}, {1, 2}, {2, 3}}));  // too few for that
}

TEST(DeviceSplit, LeavesNoGapWhateverTheRates) {
  std::mt19937_64 random(test_seed(1));
  for (int round = 0; round < 1000; ++round) {
    const StepRange all{random() % 1000, 1000 + (random() >> (1 + random() % 50))};
    std::vector<double> rates(1 + random() % 5);
    for (double& rate : rates) rate = static_cast<double>(random() % 7) * 1e9;
    std::uint64_t next = all.first;
    const auto ranges = split_by_rate(all, rates, 1 + random() % 300);
    ASSERT_EQ(ranges.size(), rates.size());
    for (const StepRange& range : ranges) {
      EXPECT_EQ(range.first, next);
      EXPECT_LE(range.first, range.last);
      next = range.last;
    }
    EXPECT_EQ(next, all.last);
  }
}

}  // namespace
}  // namespace gantry
