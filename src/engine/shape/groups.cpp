#include "engine/shape/groups.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "engine/shape/rows.hpp"

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/shape/groups.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "engine/shape/row_codecs.hpp"

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

constexpr std::size_t kAtOnce = 16;  // groups whose scales are made in one go; a multiple of kLanes
constexpr std::size_t kMostNumbers = 128;  // of a group

/// What is known of some groups, one entry a group.
struct Scales {
  alignas(64) std::array<float, kAtOnce> low{}, high{};  // of finite numbers, 0 among them
  alignas(64) std::array<float, kAtOnce> value{}, reciprocal{};
  alignas(64) std::array<std::uint32_t, kAtOnce> code{};  // the scale as it is in memory
  alignas(64) std::array<float, kAtOnce> zero{};          // the zero point
};

/// How numbers of a group's elements are made and read. Whole numbers with a zero point are codes
/// from kLeast to kLeast + kSteps.
template <class CodecOf, bool kFloatOf, int kLeastOf, int kMostOf, int kExponentOf,
          unsigned kBitsOf>
struct Numbers {
  using Codec = CodecOf;
  static constexpr bool kFloat = kFloatOf;
  static constexpr bool kSigned = kLeastOf < 0;
  static constexpr int kLeast = kLeastOf;
  static constexpr int kMost = kMostOf;
  static constexpr int kExponent = kExponentOf;  // of the largest
  static constexpr unsigned kBits = kBitsOf;
};
using GroupI8 = Numbers<I8, false, -128, 127, 0, 8>;
using GroupU8 = Numbers<U8, false, 0, 255, 0, 8>;
using GroupI4 = Numbers<I4, false, -8, 7, 0, 4>;
using GroupU4 = Numbers<U4, false, 0, 15, 0, 4>;
using GroupE4m3fn = Numbers<E4m3fn, true, -448, 448, 8, 8>;
using GroupE5m2 = Numbers<E5m2, true, -57344, 57344, 15, 8>;
using GroupE2m1 = Numbers<E2m1, true, -6, 6, 2, 4>;

HWY_INLINE Float all_of(float value) {
  return hn::Set(Floats(), value);
}

// ---- scales
// ----------------------------------------------------------------------------------------

template <class N, bool kZeroPoint>
HWY_INLINE void range_of(const float* source, std::size_t size, float* low, float* high) {
  Float least = hn::Zero(Floats()), most = least;
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Float number = hn::LoadU(Floats(), source + i);
    const Word magnitude = hn::And(bits_of(number), set(kSignBit - 1));
    const auto is_finite = greater(set(kInfinity), magnitude);
    const Word kept = N::kSigned && !kZeroPoint ? magnitude : bits_of(number);
    const Float finite = float_of(choose(is_finite, kept, set(0)));
    most = hn::Max(most, finite);
    if constexpr (kZeroPoint) least = hn::Min(least, finite);
  }
  *high = hn::GetLane(hn::MaxOfLanes(Floats(), most));
  if constexpr (kZeroPoint) *low = hn::GetLane(hn::MinOfLanes(Floats(), least));
}

/// A positive scale, and the word that stands for it.
struct Scale {
  Float value;
  Word code;
};

/// The least f16 that is not less.
HWY_INLINE Scale f16_scale(Float quotient) {
  const Float bounded = hn::Min(hn::Max(quotient, all_of(0x1p-24f)), all_of(65504));
  const Word nearest = encode<F16Format>(bounded);
  const auto is_less = hn::Lt(decode<F16Format>(nearest), bounded);
  const Word code = hn::Add(nearest, hn::IfThenElseZero(hn::RebindMask(Words(), is_less), set(1)));
  return {decode<F16Format>(code), code};
}
HWY_INLINE Scale bf16_scale(Float quotient) {
  const Float bounded = hn::Max(quotient, all_of(0x1p-126f));
  const Word code = hn::ShiftRight<16>(hn::Add(bits_of(bounded), set(0xffff)));
  return {float_of(hn::ShiftLeft<16>(code)), code};
}
HWY_INLINE Scale f32_scale(Float quotient) {
  const Float bounded = hn::Max(quotient, all_of(0x1p-126f));
  return {bounded, bits_of(bounded)};
}
/// The power of two that an e8m0 stands for: 2^-127 is none of the normal floats.
HWY_INLINE Scale e8m0_scale(Word code) {
  const auto is_least = greater(set(1), code);
  return {float_of(choose(is_least, set(0x400000), hn::ShiftLeft<23>(code))), code};
}
HWY_INLINE Scale e8m0_not_less(Float quotient) {
  const Word bits = bits_of(quotient);
  const Word code = hn::ShiftRight<23>(hn::Add(bits, set(0x7fffff)));
  return e8m0_scale(choose(greater(set(0x400001), bits), set(0), code));
}
HWY_INLINE Scale e8m0_of_largest(Float largest, std::uint32_t exponent) {
  const Word power = hn::ShiftRight<23>(bits_of(largest));
  const auto is_beyond = greater(power, set(exponent));
  return e8m0_scale(choose(is_beyond, hn::Sub(power, set(exponent)), set(0)));
}

/// What scales are made by.
struct Rules {
  Groups::Scale type = Groups::Scale::f16;
  bool is_float = false;
  std::uint32_t exponent = 0;  // of the largest element
  float divisor = 1;           // by which the range becomes a scale
  float steps = 0;             // from the least to the largest code; only with zero points
  float least = 0;             // the least code
};

HWY_INLINE Scale scale_of(const Rules& rules, Float range) {
  const Float quotient = hn::Div(range, all_of(rules.divisor));
  switch (rules.type) {
    case Groups::Scale::f32:
      return f32_scale(quotient);
    case Groups::Scale::f16:
      return f16_scale(quotient);
    case Groups::Scale::bf16:
      return bf16_scale(quotient);
    case Groups::Scale::e8m0:
      break;
  }
  return rules.is_float ? e8m0_of_largest(range, rules.exponent) : e8m0_not_less(quotient);
}

HWY_NOINLINE void make_scales(Scales& scales, const Rules& rules) {
  for (std::size_t i = 0; i < kAtOnce; i += kLanes) {
    const Float low = hn::Load(Floats(), scales.low.data() + i);
    const Float high = hn::Load(Floats(), scales.high.data() + i);
    // Halves, because the whole range may be beyond the largest float.
    const Float range =
        rules.steps == 0 ? high : hn::Sub(hn::Mul(high, all_of(0.5f)), hn::Mul(low, all_of(0.5f)));
    const auto is_zero = hn::Eq(hn::Max(high, hn::Neg(low)), hn::Zero(Floats()));
    const Scale scale = scale_of(rules, range);
    const Float reciprocal = hn::IfThenElse(is_zero, all_of(1), hn::Div(all_of(1), scale.value));
    hn::Store(hn::IfThenZeroElse(is_zero, scale.value), Floats(), scales.value.data() + i);
    hn::Store(reciprocal, Floats(), scales.reciprocal.data() + i);
    hn::Store(hn::IfThenZeroElse(hn::RebindMask(Words(), is_zero), scale.code), Words(),
              scales.code.data() + i);
    const Int zero = whole(hn::Mul(hn::Neg(low), reciprocal), 0, rules.steps);
    hn::Store(hn::Add(hn::ConvertTo(Floats(), zero), all_of(rules.least)), Floats(),
              scales.zero.data() + i);
  }
}

// ---- floats to numbers
// -----------------------------------------------------------------------------

template <class N, bool kZeroPoint>
HWY_INLINE void put_numbers(std::byte* codes, const float* source, std::size_t size,
                            float reciprocal, float zero) {
  using Codec = typename N::Codec;
  constexpr float kSteps = N::kMost - N::kLeast;
  for (std::size_t i = 0; i < size; i += kLanes) {
    Float number = hn::Mul(hn::LoadU(Floats(), source + i), all_of(reciprocal));
    if constexpr (kZeroPoint) {
      const Int steps = whole(number, -kSteps, kSteps);
      number = hn::Add(hn::ConvertTo(Floats(), steps), all_of(zero));
    } else if constexpr (N::kFloat) {
      const Float bounded = hn::Min(hn::Max(number, all_of(N::kLeast)), all_of(N::kMost));
      number = hn::IfThenElse(hn::Eq(number, number), bounded, number);
    }
    Codec::put(number, codes + i);
  }
}

HWY_INLINE void pack_codes(std::byte* to, const std::byte* codes, std::size_t size) {
  for (std::size_t i = 0; i < size / 2; ++i)
    to[i] = (codes[2 * i] & std::byte{0xf}) | codes[2 * i + 1] << 4;
}

template <class N, bool kZeroPoint>
HWY_INLINE void put_group(std::byte* to, const float* source, std::size_t size, float reciprocal,
                          float zero) {
  if constexpr (N::kBits == 8) {
    put_numbers<N, kZeroPoint>(to, source, size, reciprocal, zero);
  } else {
    alignas(64) std::array<std::byte, kMostNumbers> codes;  // NOLINT: written before it is read
    put_numbers<N, kZeroPoint>(codes.data(), source, size, reciprocal, zero);
    pack_codes(to, codes.data(), size);
  }
}

template <class N, bool kZeroPoint>
void put_some(std::byte* to, const Groups& groups, const float* source, std::size_t count,
              const Rules& rules) {
  Scales scales;
  for (std::size_t i = 0; i < count; ++i)
    range_of<N, kZeroPoint>(source + i * groups.size, groups.size, &scales.low[i], &scales.high[i]);
  make_scales(scales, rules);
  const std::size_t bytes = bytes_of(groups);
  const std::size_t scale_bytes = bytes - kZeroPoint - groups.size * N::kBits / 8;
  for (std::size_t i = 0; i < count; ++i, to += bytes, source += groups.size) {
    std::memcpy(to, &scales.code[i], scale_bytes);
    if constexpr (kZeroPoint)
      to[scale_bytes] = static_cast<std::byte>(static_cast<int>(scales.zero[i]));
    put_group<N, kZeroPoint>(to + scale_bytes + kZeroPoint, source, groups.size,
                             scales.reciprocal[i], scales.zero[i]);
  }
}

template <class N, bool kZeroPoint>
void put_all(std::byte* to, const Groups& groups, const float* source, std::size_t count) {
  Rules rules{groups.scale, N::kFloat, N::kExponent, N::kMost, 0, 0};
  if constexpr (kZeroPoint) {
    rules.steps = N::kMost - N::kLeast;
    rules.divisor = rules.steps / 2;
    rules.least = N::kLeast;
  }
  for (std::size_t i = 0; i < count; i += kAtOnce)
    put_some<N, kZeroPoint>(to + i * bytes_of(groups), groups, source + i * groups.size,
                            std::min(kAtOnce, count - i), rules);
}

// ---- numbers to floats
// -----------------------------------------------------------------------------

HWY_NOINLINE void read_scales(float* scales, const Groups& groups, const std::byte* source,
                              std::size_t count) {
  alignas(64) std::array<std::uint32_t, kAtOnce> codes{};
  const std::size_t bytes = bytes_of(groups);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = source + i * bytes;
    if (groups.scale == Groups::Scale::f32)
      std::memcpy(&codes[i], at, 4);
    else if (groups.scale == Groups::Scale::e8m0)
      std::memcpy(&codes[i], at, 1);
    else
      std::memcpy(&codes[i], at, 2);
  }
  for (std::size_t i = 0; i < kAtOnce; i += kLanes) {
    const Word code = hn::Load(Words(), codes.data() + i);
    Float value = float_of(code);
    if (groups.scale == Groups::Scale::f16) value = decode<F16Format>(code);
    if (groups.scale == Groups::Scale::bf16) value = float_of(hn::ShiftLeft<16>(code));
    if (groups.scale == Groups::Scale::e8m0)
      value = float_of(
          choose(greater(code, set(254)), set(kQuietNan), bits_of(e8m0_scale(code).value)));
    hn::StoreU(value, Floats(), scales + i);
  }
}

HWY_INLINE void unpack_codes(std::byte* codes, const std::byte* packed, std::size_t size,
                             unsigned sign) {
  for (std::size_t i = 0; i < size / 2; ++i) {
    const auto both = std::to_integer<unsigned>(packed[i]);
    codes[2 * i] = static_cast<std::byte>(((both & 0xf) ^ sign) - sign);
    codes[2 * i + 1] = static_cast<std::byte>((both >> 4 ^ sign) - sign);
  }
}

/// Beyond the largest float: that one.
HWY_INLINE Float finite_or_nan(Float value) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Float bounded = hn::Min(hn::Max(value, all_of(-kLargest)), all_of(kLargest));
  return hn::IfThenElse(hn::Eq(value, value), bounded, float_of(set(kQuietNan)));
}

template <class N>
HWY_INLINE void get_group(float* to, const std::byte* source, std::size_t size, float scale,
                          float zero) {
  alignas(64) std::array<std::byte, kMostNumbers> codes;  // NOLINT: written before it is read
  if constexpr (N::kBits == 4) {
    unpack_codes(codes.data(), source, size, N::kSigned && !N::kFloat ? 8 : 0);
    source = codes.data();
  }
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Float number = hn::Sub(N::Codec::get(source + i), all_of(zero));
    hn::StoreU(finite_or_nan(hn::Mul(number, all_of(scale))), Floats(), to + i);
  }
}

template <class N>
HWY_INLINE float zero_of(const std::byte* at) {
  const auto code = std::to_integer<std::uint8_t>(*at);
  return N::kSigned ? static_cast<std::int8_t>(code) : code;
}

template <class N>
void get_all(float* to, const Groups& groups, const std::byte* source, std::size_t count) {
  const std::size_t bytes = bytes_of(groups);
  const std::size_t zero_bytes = groups.zero_point ? 1 : 0;
  const std::size_t scale_bytes = bytes - zero_bytes - groups.size * N::kBits / 8;
  alignas(64) std::array<float, kAtOnce> scales;  // NOLINT: written before it is read
  for (std::size_t i = 0; i < count; ++i, to += groups.size, source += bytes) {
    if (i % kAtOnce == 0) read_scales(scales.data(), groups, source, std::min(kAtOnce, count - i));
    const float zero = groups.zero_point ? zero_of<N>(source + scale_bytes) : 0;
    get_group<N>(to, source + scale_bytes + zero_bytes, groups.size, scales[i % kAtOnce], zero);
  }
}

// ---- which
// -----------------------------------------------------------------------------------------

template <class N>
void put_whole(std::byte* to, const Groups& groups, const float* source, std::size_t count) {
  if (groups.zero_point) return put_all<N, true>(to, groups, source, count);
  put_all<N, false>(to, groups, source, count);
}

void PutGroups(std::byte* to, Element element, const Groups& groups, const float* source,
               std::size_t count) {
  switch (element) {
    case Element::i8:
      return put_whole<GroupI8>(to, groups, source, count);
    case Element::u8:
      return put_whole<GroupU8>(to, groups, source, count);
    case Element::i4:
      return put_whole<GroupI4>(to, groups, source, count);
    case Element::u4:
      return put_whole<GroupU4>(to, groups, source, count);
    case Element::e4m3fn:
      return put_all<GroupE4m3fn, false>(to, groups, source, count);
    case Element::e5m2:
      return put_all<GroupE5m2, false>(to, groups, source, count);
    case Element::e2m1:
      return put_all<GroupE2m1, false>(to, groups, source, count);
    default:
      return;  // no groups of these
  }
}

void GetGroups(float* to, Element element, const Groups& groups, const std::byte* source,
               std::size_t count) {
  switch (element) {
    case Element::i8:
      return get_all<GroupI8>(to, groups, source, count);
    case Element::u8:
      return get_all<GroupU8>(to, groups, source, count);
    case Element::i4:
      return get_all<GroupI4>(to, groups, source, count);
    case Element::u4:
      return get_all<GroupU4>(to, groups, source, count);
    case Element::e4m3fn:
      return get_all<GroupE4m3fn>(to, groups, source, count);
    case Element::e5m2:
      return get_all<GroupE5m2>(to, groups, source, count);
    case Element::e2m1:
      return get_all<GroupE2m1>(to, groups, source, count);
    default:
      return;  // no groups of these
  }
}

}  // namespace
}  // namespace gantry::shape::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry::shape {
namespace {

HWY_EXPORT(PutGroups);
HWY_EXPORT(GetGroups);

}  // namespace

void groups_to_floats(float* to, const Groups& groups, const std::byte* source,
                      std::size_t count) noexcept {
  if (const std::optional<Element> element = element_of(groups.element))
    HWY_DYNAMIC_DISPATCH(GetGroups)(to, *element, groups, source, count);
}

void floats_to_groups(std::byte* destination, const Groups& groups, const float* source,
                      std::size_t count) noexcept {
  if (const std::optional<Element> element = element_of(groups.element))
    HWY_DYNAMIC_DISPATCH(PutGroups)(destination, *element, groups, source, count);
}

}  // namespace gantry::shape
#endif  // HWY_ONCE
