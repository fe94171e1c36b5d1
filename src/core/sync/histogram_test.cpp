#include "core/sync/histogram.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

TEST(Histogram, BucketsCoverEveryValueInOrder) {
  unsigned last = 0;
  for (std::uint64_t value = 0; value < 100'000; ++value) {
    const unsigned bucket = Histogram::bucket_of(value);
    ASSERT_GE(bucket, last);
    ASSERT_LE(bucket, last + 1);
    ASSERT_LE(Histogram::lower(bucket), static_cast<double>(value));
    ASSERT_GT(Histogram::lower(bucket + 1), static_cast<double>(value));
    last = bucket;
  }
  EXPECT_EQ(Histogram::bucket_of(~0ull), Histogram::kBuckets - 1);
}

TEST(Histogram, QuantilesAreRightWithinABucket) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0);
  for (std::uint64_t value = 1; value <= 10'000; ++value) histogram.record(value);
  EXPECT_NEAR(histogram.quantile(0.50), 5'000, 5'000.0 / 8);
  EXPECT_NEAR(histogram.quantile(0.99), 9'900, 9'900.0 / 8);
  EXPECT_NEAR(histogram.quantile(1.0), 10'000, 10'000.0 / 8);
}

TEST(Histogram, OneSlowOneShowsAtTheEndOnly) {
  Histogram histogram;
  for (int i = 0; i < 999; ++i) histogram.record(4);
  histogram.record(1'000'000);
  EXPECT_LT(histogram.quantile(0.99), 6);
  EXPECT_GT(histogram.quantile(1.0), 800'000);
}

}  // namespace
}  // namespace gantry
