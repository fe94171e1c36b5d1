#pragma once  // decision/values.hpp: codes of planes as numbers, and as keys that decisions
              // compare.

#include <bit>

#include "engine/shape/element.hpp"

namespace gantry::decision {

/// Codes or keys that something may have, both ends included.
struct CodeSpan {
  std::uint64_t lo = 0, hi = 0;
  [[nodiscard]] bool is_exact() const noexcept { return lo == hi; }
};

/// What codes of a type mean. A key is a code in which -0 is +0, and 0 every NaN: equal values have
/// equal keys, and NaN is below all.
class Values {
 public:
  explicit Values(shape::Element element) noexcept;

  [[nodiscard]] unsigned bits() const noexcept { return bits_; }
  /// Codes of which the highest `known` bits are those of `code`, whose others are 0.
  [[nodiscard]] CodeSpan span_of(std::uint64_t code, unsigned known) const noexcept {
    return {code, known >= bits_ ? code : code | (~std::uint64_t{0} >> (64 - bits_ + known))};
  }
  [[nodiscard]] CodeSpan keys_of(CodeSpan codes) const noexcept;
  [[nodiscard]] bool may_be_nan(CodeSpan codes) const noexcept {
    return codes.lo < least_ || codes.hi > largest_;
  }
  /// Without NaNs; lo > hi if nothing is left.
  [[nodiscard]] CodeSpan numbers_of(CodeSpan codes) const noexcept {
    return {codes.lo < least_ ? least_ : codes.lo, codes.hi > largest_ ? largest_ : codes.hi};
  }
  /// Exact. NaN of a NaN.
  [[nodiscard]] double value_of(std::uint64_t code) const noexcept {
    if (element_ != shape::Element::f32) return slow_value_of(code);
    const auto bits = static_cast<std::uint32_t>(code);
    return std::bit_cast<float>(bits ^ (((bits >> 31) - 1) | 0x80000000u));
  }
  /// The least key whose value is above `limit`; above all keys if there is none.
  [[nodiscard]] std::uint64_t key_above(double limit) const noexcept;

 private:
  [[nodiscard]] double slow_value_of(std::uint64_t code) const noexcept;

  shape::Element element_;
  unsigned bits_;
  unsigned fraction_ = 0;                          // bits of a float's fraction; 0: no float
  std::uint64_t least_, largest_, plus_zero_ = 0;  // codes of the extreme numbers, of +0 of floats
};

}  // namespace gantry::decision
