#include "statistics.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace gantry::bench {
namespace {

TEST(Statistics, MedianIsTheMiddleOfAnOddCount) {
  std::vector<double> values = {9, 1, 5};
  EXPECT_DOUBLE_EQ(median(values), 5);
}

TEST(Statistics, MedianIsTheMeanOfTheTwoInTheMiddle) {
  std::vector<double> values = {40, 10, 20, 30};
  EXPECT_DOUBLE_EQ(median(values), 25);
}

TEST(Statistics, MedianOfEqualAndOfNoValues) {
  std::vector<double> equal = {7, 7, 7, 7};
  EXPECT_DOUBLE_EQ(median(equal), 7);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Statistics, PercentileIsTheNearestRank) {
  std::vector<double> values(200);
  std::iota(values.rbegin(), values.rend(), 1.0);  // 200 .. 1
  EXPECT_DOUBLE_EQ(percentile(values, 0.99), 198);
  EXPECT_DOUBLE_EQ(percentile(values, 0.5), 100);
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 200);
}

TEST(Statistics, PercentileOfFewValuesIsOneOfThem) {
  std::vector<double> values = {3, 1, 2};
  EXPECT_DOUBLE_EQ(percentile(values, 0.99), 3);
  EXPECT_DOUBLE_EQ(percentile({}, 0.99), 0);
}

TEST(Statistics, SummaryHasMedianAndExtremes) {
  std::vector<double> values = {4, 8, 2, 6, 100};
  const Summary summary = summarize(values);
  EXPECT_DOUBLE_EQ(summary.value, 6);
  EXPECT_DOUBLE_EQ(summary.min, 2);
  EXPECT_DOUBLE_EQ(summary.max, 100);
  EXPECT_EQ(summary.rounds, 5u);
}

}  // namespace
}  // namespace gantry::bench
