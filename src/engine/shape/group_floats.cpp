#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "engine/shape/rows.hpp"

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/shape/group_floats.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "engine/shape/group_codecs.hpp"

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

constexpr std::size_t kMostNumbers = 128;  // of a group

// ---- numbers to floats --------------------------------------------------------------------------

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

HWY_EXPORT(GetGroups);

}  // namespace

void groups_to_floats(float* to, const Groups& groups, const std::byte* source,
                      std::size_t count) noexcept {
  if (const std::optional<Element> element = element_of(groups.element))
    HWY_DYNAMIC_DISPATCH(GetGroups)(to, *element, groups, source, count);
}

}  // namespace gantry::shape
#endif  // HWY_ONCE
