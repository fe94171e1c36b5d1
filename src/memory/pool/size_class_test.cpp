#include "memory/pool/size_class.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

TEST(SizeClass, HoldsEverySizeWithLittleLoss) {
  for (Bytes size = 1; size <= (Bytes{1} << 20); size += 1 + size / 97) {
    const Bytes capacity = capacity_for(size);
    ASSERT_GE(capacity, size);
    ASSERT_EQ(capacity % alignment_of(capacity), 0u) << size;
    ASSERT_EQ(capacity_for(capacity), capacity) << "a capacity is its own";
    if (size > 512) {
      ASSERT_LE(capacity - size, std::max(size / 4, kPage - 1)) << size;
    }
    if (size > kLargestClass) {
      ASSERT_LE(capacity - size, size / 16) << size;
    }
  }
}

TEST(SizeClass, NumbersAgreeWithCapacities) {
  for (Bytes size = 1; size <= kLargestClass; ++size)
    ASSERT_EQ(class_capacity(class_of(size)), capacity_for(size)) << size;
  for (unsigned i = 1; i < kClasses; ++i) EXPECT_LT(class_capacity(i - 1), class_capacity(i));
}

TEST(SizeClass, ReachesBeyondFourGibibytes) {
  EXPECT_EQ(capacity_for((Bytes{5} << 30) + 1), (Bytes{5} << 30) + (Bytes{256} << 20));
}

}  // namespace
}  // namespace gantry
