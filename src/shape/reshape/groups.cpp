#include "core/tensor/groups.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "shape/reshape/rows.hpp"

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shape/reshape/groups.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "shape/reshape/row_codecs.hpp"

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

constexpr std::size_t kAtOnce = 32;  // groups whose scales are made in one go; a multiple of kLanes

/// How numbers of a group's elements are made and read. With a zero point their codes
/// are those from kLeast to kMost.
template <class CodecOf, bool kFloatOf, int kLeastOf, int kMostOf, int kExponentOf,
          unsigned kBitsOf>
struct Numbers {
  using Codec = CodecOf;
  static constexpr bool kFloat = kFloatOf;
  static constexpr bool kSigned = kLeastOf < 0;
  static constexpr bool kSaturates = kFloatOf && kMostOf < 1000;  // the element by itself
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

/// The power of two that an e8m0 stands for: 2^-127 is none of the normal floats.
HWY_INLINE Float of_e8m0(Word code) {
  return float_of(choose(greater(set(1), code), set(0x400000), hn::ShiftLeft<23>(code)));
}

/// What is known of some groups, one entry a group.
struct Scales {
  alignas(64) std::array<std::int32_t, kAtOnce> largest{};  // bits of what is farthest from 0
  alignas(64) std::array<float, kAtOnce> low{}, high{};     // of finite numbers, 0 among them
  // Written before they are read:
  alignas(64) std::array<float, kAtOnce> reciprocal;
  alignas(64) std::array<std::uint32_t, kAtOnce> code;  // the scale as it is in memory
  alignas(64) std::array<float, kAtOnce> zero;          // the zero point
  // All numbers are finite, and the scale is large enough for them: its type may have none that is.
  alignas(64) std::array<std::uint32_t, kAtOnce> plain;
};

// ---- scales -------------------------------------------------------------------------------------

template <class N, bool kZeroPoint, bool kPlain>
HWY_INLINE void range_of(const float* source, std::size_t size, float* low, float* high) {
  Float least = hn::Zero(Floats()), most = least;
  for (std::size_t i = 0; i < size; i += kLanes) {
    Float number = hn::LoadU(Floats(), source + i);
    const Word magnitude = hn::And(bits_of(number), set(kSignBit - 1));
    if constexpr (N::kSigned && !kZeroPoint) number = float_of(magnitude);
    if constexpr (!kPlain)
      number = float_of(choose(greater(set(kInfinity), magnitude), bits_of(number), set(0)));
    most = hn::Max(most, number);
    if constexpr (kZeroPoint) least = hn::Min(least, number);
  }
  *high = hn::GetLane(hn::MaxOfLanes(Floats(), most));
  if constexpr (kZeroPoint) *low = hn::GetLane(hn::MinOfLanes(Floats(), least));
}

#if HWY_TARGET == HWY_SCALAR
constexpr std::size_t kParts = 1;
HWY_INLINE Int largest_of_parts(const std::int32_t* parts) {
  return hn::Load(Ints(), parts);
}
HWY_INLINE void store_parts(Ints lanes, Int numbers, std::int32_t* to) {
  hn::Store(numbers, lanes, to);
}
#else
constexpr std::size_t kParts = 4;
HWY_INLINE Int largest_of_parts(const std::int32_t* parts) {
  Int a, b, c, d;
  hn::LoadInterleaved4(Ints(), parts, a, b, c, d);
  return hn::Max(hn::Max(a, b), hn::Max(c, d));
}
/// Leaves kParts numbers, one of which is the largest.
template <class Lanes>
HWY_INLINE void store_parts(Lanes lanes, hn::Vec<Lanes> numbers, std::int32_t* to) {
  if constexpr (hn::MaxLanes(lanes) <= kParts) {
    hn::Store(numbers, lanes, to);
  } else {
    const hn::Half<Lanes> half;
    store_parts(half, hn::Max(hn::LowerHalf(half, numbers), hn::UpperHalf(half, numbers)), to);
  }
}
#endif

/// The bits of the number that is farthest from 0, for each group: beyond the infinite ones are
/// NaNs. The last steps of a maximum, from lane to lane, are made for many groups at once.
template <class Size>
HWY_INLINE void find_largest(Scales& scales, const float* source, Size size, std::size_t count) {
  alignas(64) std::array<std::int32_t, kAtOnce * kParts>
      parts;  // NOLINT: written before it is read
  for (std::size_t group = 0; group < count; ++group, source += size) {
    Int most = hn::Zero(Ints());
    for (std::size_t i = 0; i < size; i += kLanes) {
      const Word bits = bits_of(hn::LoadU(Floats(), source + i));
      most = hn::Max(most, int_of(hn::And(bits, set(kSignBit - 1))));
    }
    store_parts(Ints(), most, parts.data() + group * kParts);
  }
  std::fill(parts.begin() + static_cast<std::ptrdiff_t>(count * kParts), parts.end(), 0);
  for (std::size_t i = 0; i < kAtOnce; i += kLanes)
    hn::Store(largest_of_parts(parts.data() + i * kParts), Ints(), scales.largest.data() + i);
}

/// A positive scale, and the word that stands for it.
struct Scale {
  Float value;
  Word code;
};

/// The least f16 that is not less. Below 2^-14 they are multiples of 2^-24.
HWY_INLINE Scale f16_scale(Float quotient) {
  const Float bounded = hn::Min(hn::Max(quotient, all_of(0x1p-24f)), all_of(65504));
  const Word above = hn::Add(bits_of(bounded), set(0x1fff));
  const Float small = hn::Ceil(hn::Mul(bounded, all_of(0x1p24f)));
  const auto is_small = hn::RebindMask(Ints(), hn::Lt(bounded, all_of(0x1p-14f)));
  const Word code = hn::Sub(hn::ShiftRight<13>(above), set(112u << 10));
  const Word of_small = hn::BitCast(Words(), hn::ConvertTo(Ints(), small));
  const Word value = hn::And(above, set(~0x1fffu));
  return {float_of(choose(is_small, bits_of(hn::Mul(small, all_of(0x1p-24f))), value)),
          choose(is_small, of_small, code)};
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
HWY_INLINE Scale e8m0_scale(Word code) {
  return {of_e8m0(code), code};
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
  float room = 0;              // of which the range must stay short, in steps
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
    hn::Store(reciprocal, Floats(), scales.reciprocal.data() + i);
    hn::Store(hn::IfThenZeroElse(hn::RebindMask(Words(), is_zero), scale.code), Words(),
              scales.code.data() + i);
    const Int zero = whole(hn::Mul(hn::Neg(low), reciprocal), 0, rules.steps);
    hn::Store(hn::Add(hn::ConvertTo(Floats(), zero), all_of(rules.least)), Floats(),
              scales.zero.data() + i);
    const auto has_room = hn::Lt(hn::Mul(hn::Sub(high, low), reciprocal), all_of(rules.room));
    const Word largest = hn::BitCast(Words(), hn::Load(Ints(), scales.largest.data() + i));
    const auto is_plain =
        hn::And(hn::RebindMask(Ints(), has_room), greater(set(kInfinity), largest));
    hn::Store(choose(is_plain, set(1), set(0)), Words(), scales.plain.data() + i);
  }
}

// ---- floats to numbers --------------------------------------------------------------------------

/// The code of each number, in the lower bits of words. `room`: steps from the zero point up.
template <class N, bool kZeroPoint, bool kPlain>
HWY_INLINE Word code_of(Float number, float zero, float room) {
  const Float magic = hn::Set(Floats(), 0x1.8p23f);  // the sum's last digit is 1
  if constexpr (N::kFloat) {
    if constexpr (kPlain || N::kSaturates) return N::Codec::code(number);
    const Float bounded = hn::Min(hn::Max(number, all_of(N::kLeast)), all_of(N::kMost));
    return N::Codec::code(hn::IfThenElse(hn::Eq(number, number), bounded, number));
  } else if constexpr (kZeroPoint) {
    constexpr float kSteps = N::kMost - N::kLeast;
    if constexpr (!kPlain) number = hn::ConvertTo(Floats(), whole(number, -kSteps, kSteps));
    const Float bounded = hn::Max(hn::Min(number, all_of(room)), all_of(room - kSteps));
    return hn::Add(bits_of(hn::Add(bounded, magic)),
                   set(static_cast<std::uint32_t>(static_cast<int>(zero))));
  } else if constexpr (kPlain) {
    if constexpr (!N::kSigned) number = hn::Max(number, hn::Zero(Floats()));
    return bits_of(hn::Add(number, magic));
  } else {
    return N::Codec::code(number);
  }
}

#if HWY_TARGET == HWY_SCALAR
template <unsigned kBits, class Code>
HWY_INLINE void put_codes_of(std::byte* to, std::size_t size, Code code) {
  for (std::size_t i = 0; i < size; ++i) {
    const auto bits = static_cast<std::byte>(code(i).raw & 0xff);
    if constexpr (kBits == 8)
      to[i] = bits;
    else if (i % 2 == 0)
      to[i / 2] = bits & std::byte{0xf};
    else
      to[i / 2] |= bits << 4;
  }
}
#else
template <unsigned kBits, class Code>
HWY_INLINE void put_codes_of(std::byte* to, std::size_t size, Code code) {
  for (std::size_t i = 0; i < size; i += 2 * kLanes) {
    const auto pairs = pair_of<false>(code(i), code(i + kLanes));
    if constexpr (kBits == 8) {
      const hn::Rebind<std::uint8_t, Pairs> bytes;
      hn::StoreU(hn::TruncateTo(bytes, pairs), bytes, reinterpret_cast<std::uint8_t*>(to) + i);
    } else {
      const Word both = hn::BitCast(Words(), pairs);
      const Word high = hn::And(hn::ShiftRight<12>(both), set(0xf0));
      store<std::uint8_t, false>(hn::U8FromU32(hn::Or(hn::And(both, set(0xf)), high)), to + i / 2);
    }
  }
}
#endif

template <class N, bool kZeroPoint, bool kPlain>
HWY_INLINE void put_numbers(std::byte* to, const float* source, std::size_t size, float reciprocal,
                            float zero) {
  const float room = static_cast<float>(N::kMost) - zero;
  put_codes_of<N::kBits>(to, size, [&](std::size_t i) HWY_ATTR {
    const Float number = hn::Mul(hn::LoadU(Floats(), source + i), all_of(reciprocal));
    return code_of<N, kZeroPoint, kPlain>(number, zero, room);
  });
}

template <class N, bool kZeroPoint, class Size>
HWY_INLINE void ranges_of(Scales& scales, const float* source, Size size, std::size_t count) {
  constexpr bool kIsMagnitude = N::kSigned && !kZeroPoint;
  find_largest(scales, source, size, count);
  for (std::size_t i = 0; i < count; ++i, source += size) {
    if (static_cast<std::uint32_t>(scales.largest[i]) >= kInfinity)
      range_of<N, kZeroPoint, false>(source, size, &scales.low[i], &scales.high[i]);
    else if constexpr (kIsMagnitude)
      scales.high[i] = std::bit_cast<float>(scales.largest[i]);
    else
      range_of<N, kZeroPoint, true>(source, size, &scales.low[i], &scales.high[i]);
  }
}

/// `size` is a constant for the usual groups.
template <class N, bool kZeroPoint, class Size>
void put_some(std::byte* to, const Groups& groups, Size size, const float* source,
              std::size_t count, const Rules& rules) {
  Scales scales;  // NOLINT: as it says
  const std::size_t bytes = bytes_of(groups);
  const std::size_t scale_bytes = bytes - kZeroPoint - size * N::kBits / 8;
  ranges_of<N, kZeroPoint>(scales, source, size, count);
  make_scales(scales, rules);
  for (std::size_t i = 0; i < count; ++i, to += bytes, source += size) {
    const float zero = scales.zero[i];
    std::byte* numbers = to + scale_bytes + kZeroPoint;
    std::memcpy(to, &scales.code[i], sizeof scales.code[i]);  // what is too much is overwritten
    if constexpr (kZeroPoint) to[scale_bytes] = static_cast<std::byte>(static_cast<int>(zero));
    if (scales.plain[i] != 0)
      put_numbers<N, kZeroPoint, true>(numbers, source, size, scales.reciprocal[i], zero);
    else
      put_numbers<N, kZeroPoint, false>(numbers, source, size, scales.reciprocal[i], zero);
  }
}

template <class N, bool kZeroPoint>
void put_all(std::byte* to, const Groups& groups, const float* source, std::size_t count) {
  constexpr float kMost = kZeroPoint ? N::kMost - N::kLeast : N::kMost;
  Rules rules{groups.scale, N::kFloat, N::kExponent, N::kMost, 0, 0, kMost + 0.25f};
  if constexpr (kZeroPoint) {
    rules.steps = N::kMost - N::kLeast;
    rules.divisor = rules.steps / 2;
    rules.least = N::kLeast;
  }
  const auto put = [&](auto size) HWY_ATTR {
    for (std::size_t i = 0; i < count; i += kAtOnce)
      put_some<N, kZeroPoint>(to + i * bytes_of(groups), groups, size, source + i * size,
                              std::min(kAtOnce, count - i), rules);
  };
  if (groups.size == 32) return put(std::integral_constant<std::size_t, 32>());
  put(std::size_t{groups.size});
}

// ---- numbers to floats --------------------------------------------------------------------------

constexpr std::size_t kMostNumbers = 128;  // of a group

HWY_NOINLINE void read_scales(float* scales, const Groups& groups, const std::byte* source,
                              std::size_t count) {
  alignas(64) std::array<std::uint32_t, kAtOnce> codes{};
  const std::size_t bytes = bytes_of(groups);  // more than a word's
  const std::uint32_t mask = groups.scale == Groups::Scale::f32    ? 0xffffffffu
                             : groups.scale == Groups::Scale::e8m0 ? 0xffu
                                                                   : 0xffffu;
  for (std::size_t i = 0; i < count; ++i) std::memcpy(&codes[i], source + i * bytes, 4);
  for (std::size_t i = 0; i < kAtOnce; i += kLanes) {
    const Word code = hn::And(hn::Load(Words(), codes.data() + i), set(mask));
    Float value = float_of(code);
    if (groups.scale == Groups::Scale::f16) value = decode<F16Format>(code);
    if (groups.scale == Groups::Scale::bf16) value = float_of(hn::ShiftLeft<16>(code));
    if (groups.scale == Groups::Scale::e8m0)
      value = float_of(choose(greater(code, set(254)), set(kQuietNan), bits_of(of_e8m0(code))));
    hn::StoreU(value, Floats(), scales + i);
  }
}

/// `sign`: the bit of a number that is copied to those above it; 0: none.
HWY_INLINE void unpack_codes(std::byte* codes, const std::byte* packed, std::size_t size,
                             std::uint16_t sign) {
  const hn::CappedTag<std::uint16_t, 16> pairs;
  const hn::Rebind<std::uint8_t, decltype(pairs)> bytes;
  const auto signs = hn::Set(pairs, static_cast<std::uint16_t>(sign * 0x101));
  for (std::size_t i = 0; i < size / 2; i += hn::MaxLanes(pairs)) {
    const auto both =
        hn::PromoteTo(pairs, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(packed) + i));
    const auto low = hn::And(both, hn::Set(pairs, 0x0f));
    const auto high = hn::ShiftLeft<4>(hn::And(both, hn::Set(pairs, 0xf0)));
    const auto code = hn::Or(low, high);
    const auto above = hn::Mul(hn::And(code, signs), hn::Set(pairs, 0x1e));
    hn::StoreU(hn::Or(code, above), pairs, reinterpret_cast<std::uint16_t*>(codes) + i);
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

// ---- which --------------------------------------------------------------------------------------

/// Calls `use` with the numbers of groups of that element.
template <class Use>
HWY_INLINE void with_numbers(Element element, Use use) {
  switch (element) {
    case Element::i8:
      return use(GroupI8());
    case Element::u8:
      return use(GroupU8());
    case Element::i4:
      return use(GroupI4());
    case Element::u4:
      return use(GroupU4());
    case Element::e4m3fn:
      return use(GroupE4m3fn());
    case Element::e5m2:
      return use(GroupE5m2());
    case Element::e2m1:
      return use(GroupE2m1());
    default:
      return;  // no groups of these
  }
}

void PutGroups(std::byte* to, Element element, const Groups& groups, const float* source,
               std::size_t count) {
  with_numbers(element, [&](auto numbers) HWY_ATTR {
    using N = decltype(numbers);
    if constexpr (!N::kFloat)
      if (groups.zero_point) return put_all<N, true>(to, groups, source, count);
    put_all<N, false>(to, groups, source, count);
  });
}

void GetGroups(float* to, Element element, const Groups& groups, const std::byte* source,
               std::size_t count) {
  with_numbers(element, [&](auto numbers)
                            HWY_ATTR { get_all<decltype(numbers)>(to, groups, source, count); });
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

void floats_to_groups(std::byte* destination, const Groups& groups, const float* source,
                      std::size_t count) noexcept {
  if (const std::optional<Element> element = element_of(groups.element))
    HWY_DYNAMIC_DISPATCH(PutGroups)(destination, *element, groups, source, count);
}

void groups_to_floats(float* to, const Groups& groups, const std::byte* source,
                      std::size_t count) noexcept {
  if (const std::optional<Element> element = element_of(groups.element))
    HWY_DYNAMIC_DISPATCH(GetGroups)(to, *element, groups, source, count);
}

}  // namespace gantry::shape
#endif  // HWY_ONCE
