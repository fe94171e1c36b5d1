#pragma once  // base/half_float.hpp: floating point of 16 bits to and from float.

#include <bit>
#include <cstdint>

namespace gantry {

/// IEEE 754 binary16 (f16): 1 bit of sign, 5 of exponent, 10 of fraction. Exact.
[[nodiscard]] inline float float_of_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t rest = bits & 0x7fffu;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x0400) return std::bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
  const float magnitude = static_cast<float>(rest) * 0x1p-24f;  // zero or below the normal numbers
  return sign == 0 ? magnitude : -magnitude;
}

/// Rounds to the nearest, ties to even; beyond the largest: infinity. A NaN stays one.
[[nodiscard]] inline std::uint16_t f16_of_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t rest = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (rest > 0x7f800000u) {
    half = 0x7e00u | (rest >> 13 & 0x1ffu);
  } else if (rest >= 0x47800000u) {  // 65536 and more
    half = 0x7c00u;
  } else if (rest >= 0x38800000u) {  // 2^-14 and more: the carry of rounding may reach infinity
    half = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
  } else {  // The sum's last bit of fraction weighs 2^-24, so the addition rounds to that.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u;
  }
  return static_cast<std::uint16_t>(sign | half);
}

/// bfloat16 (bf16): the upper half of a float. Exact.
[[nodiscard]] inline float float_of_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Rounds to the nearest, ties to even; beyond the largest: infinity. A NaN stays one.
[[nodiscard]] inline std::uint16_t bf16_of_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace gantry
