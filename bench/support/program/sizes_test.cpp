#include "sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gantry::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sizes, UnitsAreBinary) {
  EXPECT_EQ(parse_size("64").value(), 64u);
  EXPECT_EQ(parse_size("64B").value(), 64u);
  EXPECT_EQ(parse_size("3K").value(), 3072u);
  EXPECT_EQ(parse_size("16m").value(), Bytes{16} << 20);
  EXPECT_EQ(parse_size("2GiB").value(), Bytes{2} << 30);
}

TEST(Sizes, ListKeepsItsOrderAndNamesEachOnce) {
  EXPECT_THAT(parse_sizes("1M,64,1024K,64K").value(),
              ElementsAre(Bytes{1} << 20, Bytes{64}, Bytes{64} << 10));
}

struct Bad {
  const char* text;
  const char* why;
};

class BadSizes : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSizes, AreRefusedWithTheReason) {
  const auto sizes = parse_sizes(GetParam().text);
  ASSERT_FALSE(sizes.has_value());
  EXPECT_EQ(sizes.error().code, Code::invalid_argument);
  EXPECT_THAT(sizes.error().message, HasSubstr(GetParam().why));
  EXPECT_FALSE(sizes.error().hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSizes,
    ::testing::Values(Bad{"", "not a number"}, Bad{"64,,1K", "not a number"},
                      Bad{"64,", "not a number"}, Bad{"-64", "not a number"},
                      Bad{"K", "not a number"}, Bad{"64Q", "unknown unit"},
                      Bad{"1.5M", "unknown unit"}, Bad{"64 K", "unknown unit"},
                      Bad{"64KX", "unknown unit"}, Bad{"7", "smallest"}, Bad{"0", "smallest"},
                      Bad{"99999999999999999999", "too large"},
                      Bad{"17179869184G", "too large"}));  // 2^34 GiB: one bit more than there are

TEST(Sizes, AreShownInTheLargestUnitThatIsExact) {
  EXPECT_EQ(format_size(64), "64 B");
  EXPECT_EQ(format_size(1536), "1536 B");
  EXPECT_EQ(format_size(Bytes{64} << 10), "64 KiB");
  EXPECT_EQ(format_size(Bytes{128} << 20), "128 MiB");
  EXPECT_EQ(format_size(Bytes{2048} << 30), "2048 GiB");
}

}  // namespace
}  // namespace gantry::bench
