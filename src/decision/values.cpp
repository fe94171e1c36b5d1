#include "decision/values.hpp"

#include <cmath>
#include <limits>

#include "engine/shape/planes.hpp"

namespace gantry::decision {
namespace {

using shape::Element;

// Of a float of any width: sign, exponent, fraction.
double small_float(std::uint64_t bits, unsigned width, unsigned fraction) noexcept {
  const unsigned exponent_bits = width - 1 - fraction;
  const auto exponent = static_cast<int>(bits >> fraction & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint64_t one = std::uint64_t{1} << fraction;
  const std::uint64_t digits = (bits & (one - 1)) | (exponent == 0 ? 0 : one);
  const int scale = (exponent == 0 ? 1 : exponent) - bias - static_cast<int>(fraction);
  const double magnitude = std::ldexp(static_cast<double>(digits), scale);
  return (bits >> (width - 1) & 1u) != 0 ? -magnitude : magnitude;
}

// The bits of the largest number, infinity included.
std::uint64_t largest_bits(Element element, unsigned width, unsigned fraction) noexcept {
  if (element == Element::e4m3fn) return 0x7e;
  const std::uint64_t exponent = (std::uint64_t{1} << (width - 1 - fraction)) - 1;
  return exponent << fraction;
}

}  // namespace

Values::Values(Element element) noexcept : element_(element) {
  const shape::ElementFacts& facts = shape::facts_of(element);
  bits_ = facts.bits;
  if (!facts.is_float) {
    least_ = 0;
    largest_ = ~std::uint64_t{0} >> (64 - bits_);
    return;
  }
  fraction_ = facts.digits - 1;
  const std::uint64_t largest = largest_bits(element, bits_, fraction_);
  const std::uint64_t sign = std::uint64_t{1} << (bits_ - 1);
  largest_ = shape::code_of(element, largest);
  least_ = shape::code_of(element, largest | sign);
  plus_zero_ = sign;
}

CodeSpan Values::keys_of(CodeSpan codes) const noexcept {
  const auto key = [&](std::uint64_t code) { return code + 1 == plus_zero_ ? plus_zero_ : code; };
  const CodeSpan numbers = numbers_of(codes);
  if (numbers.lo > numbers.hi) return {0, 0};  // all NaN
  return {may_be_nan(codes) ? 0 : key(numbers.lo), key(numbers.hi)};
}

double Values::slow_value_of(std::uint64_t code) const noexcept {
  const std::uint64_t bits = shape::bits_of(element_, code);
  switch (element_) {
    case Element::f64:
      return std::bit_cast<double>(bits);
    case Element::i32:
      return static_cast<std::int32_t>(bits);
    case Element::i16:
      return static_cast<std::int16_t>(bits);
    case Element::i8:
      return static_cast<std::int8_t>(bits);
    default:
      break;
  }
  if (fraction_ == 0) return static_cast<double>(bits);
  if (code < least_ || code > largest_) return std::numeric_limits<double>::quiet_NaN();
  if (element_ != Element::e4m3fn && (code == least_ || code == largest_))
    return code == least_ ? -std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::infinity();
  return small_float(bits, bits_, fraction_);
}

std::uint64_t Values::key_above(double limit) const noexcept {
  std::uint64_t lo = least_, hi = largest_ + 1;  // codes of 64 bits are of floats: no overflow
  while (lo < hi) {
    const std::uint64_t middle = lo + (hi - lo) / 2;
    if (value_of(middle) > limit)
      hi = middle;
    else
      lo = middle + 1;
  }
  return lo;
}

}  // namespace gantry::decision
