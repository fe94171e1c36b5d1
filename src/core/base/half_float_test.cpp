#include "core/base/half_float.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gantry {
namespace {

// What 16 bits mean, by the definition of the format; bits that mean no number are left out.
double meaning_of(unsigned bits, unsigned fraction_bits, int bias) {
  const unsigned fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>((bits & 0x7fffu) >> fraction_bits);
  const double scaled = exponent == 0 ? fraction : fraction + (1u << fraction_bits);
  const double value =
      std::ldexp(scaled, (exponent == 0 ? 1 : exponent) - bias - static_cast<int>(fraction_bits));
  return (bits & 0x8000u) != 0 ? -value : value;
}

struct Format {
  unsigned infinity;  // the bits of
  unsigned fraction_bits;
  int bias;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};
const Format kFormats[] = {{0x7c00, 10, 15, float_of_f16, f16_of_float},
                           {0x7f80, 7, 127, float_of_bf16, bf16_of_float}};

TEST(HalfFloat, EachNumberIsWhatItsBitsSayAndComesBack) {
  for (const Format& format : kFormats)
    for (unsigned sign : {0u, 0x8000u})
      for (unsigned bits = sign; bits < sign + format.infinity; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float wide = format.widen(half);
        ASSERT_EQ(wide, meaning_of(bits, format.fraction_bits, format.bias)) << bits;
        ASSERT_EQ(format.narrow(wide), half) << bits;
      }
}

TEST(HalfFloat, RoundsToTheNearestAndTiesToEven) {
  for (const Format& format : kFormats)
    for (unsigned bits = 0; bits < format.infinity; ++bits) {  // the last one rounds to infinity
      const auto low = static_cast<std::uint16_t>(bits);
      const auto high = static_cast<std::uint16_t>(bits + 1);
      const double middle = (meaning_of(bits, format.fraction_bits, format.bias) +
                             meaning_of(bits + 1, format.fraction_bits, format.bias)) /
                            2;
      const auto tie = static_cast<float>(middle);
      ASSERT_EQ(tie, middle);
      ASSERT_EQ(format.narrow(tie), bits % 2 == 0 ? low : high) << bits;
      ASSERT_EQ(format.narrow(-tie), (bits % 2 == 0 ? low : high) | 0x8000) << bits;
      ASSERT_EQ(format.narrow(std::nextafter(tie, 0.0f)), low) << bits;
      ASSERT_EQ(format.narrow(std::nextafter(tie, INFINITY)), high) << bits;
    }
}

TEST(HalfFloat, WhatIsNoNumberStaysSo) {
  for (const Format& format : kFormats) {
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(format.widen(static_cast<std::uint16_t>(format.infinity)), infinity);
    EXPECT_EQ(format.widen(static_cast<std::uint16_t>(format.infinity | 0x8000)), -infinity);
    EXPECT_EQ(format.narrow(infinity), format.infinity);
    EXPECT_EQ(format.narrow(-infinity), format.infinity | 0x8000);
    EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), format.infinity);
    for (unsigned bits = format.infinity + 1; bits < 0x8000; ++bits) {
      const float wide = format.widen(static_cast<std::uint16_t>(bits));
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(format.widen(format.narrow(wide)))) << bits;
    }
    const auto quiet = std::bit_cast<float>(0x7f800001u);  // its fraction's upper bits are 0
    EXPECT_TRUE(std::isnan(format.widen(format.narrow(quiet))));
  }
}

}  // namespace
}  // namespace gantry
