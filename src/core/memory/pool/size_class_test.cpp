#include "core/memory/pool/size_class.hpp"

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
    if (size > kLargestExact) {
      ASSERT_LE(capacity - size, size / 16) << size;
    }
  }
}

TEST(SizeClass, NumbersAgreeWithCapacities) {
  for (Bytes size = 1; size <= kLargestExact; ++size)
    ASSERT_EQ(class_capacity(class_of(size)), capacity_for(size)) << size;
  for (unsigned i = 1; i < kExactClasses; ++i) EXPECT_LT(class_capacity(i - 1), class_capacity(i));
}

TEST(SizeClass, LargeOnesHoldWhatIsNearAndTheNextFitsAlways) {
  EXPECT_EQ(class_of(kLargestExact + 1), kExactClasses);
  EXPECT_EQ(class_of(kLargestClass), kClasses - 1);
  Bytes smallest = kLargestExact + 1;  // of the class
  for (Bytes size = kLargestExact + 1; size < kLargestClass / 2; size += 1 + size / 1009) {
    const unsigned number = class_of(size);
    if (number != class_of(smallest)) {
      ASSERT_EQ(number, class_of(smallest) + 1) << size;
      smallest = size;
    }
    ASSERT_LE(size - smallest, smallest / 4) << size;
    ASSERT_LT(size, capacity_for(2 * size));
  }
}

TEST(SizeClass, ReachesBeyondFourGibibytes) {
  EXPECT_EQ(capacity_for((Bytes{5} << 30) + 1), (Bytes{5} << 30) + (Bytes{256} << 20));
}

}  // namespace
}  // namespace gantry
