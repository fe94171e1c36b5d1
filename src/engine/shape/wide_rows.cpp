#include "engine/shape/wide_rows.hpp"

#include <bit>
#include <cstring>

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time. The loops are plain: the compiler
// makes vectors of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/shape/wide_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
HWY_INLINE void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// Towards 0 if it has to be rounded, and then with the last bit set. Beyond the largest float:
/// that one.
HWY_INLINE float to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  const double magnitude = value < 0 ? -value : value, backs = back < 0 ? -back : back;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const std::uint32_t toward_zero = backs > magnitude ? bits - 1 : bits;
  const std::uint32_t inexact = backs > magnitude || backs < magnitude ? 1 : 0;
  return std::bit_cast<float>(toward_zero | inexact);
}

/// To nearest even; NaN becomes 0.
HWY_INLINE std::int32_t whole(double value) {
  constexpr double kMagic = 0x1.8p52;  // the sum's last digit is 1
  value = value == value ? value : 0;
  value = value < -2147483648.0 ? -2147483648.0 : value;
  value = value > 2147483647.0 ? 2147483647.0 : value;
  return static_cast<std::int32_t>(std::bit_cast<std::uint64_t>(value + kMagic));
}

template <class From, class To, class Each>
HWY_INLINE void loop(std::byte* to, const std::byte* from, std::size_t count, Each each) {
  for (std::size_t i = 0; i < count; ++i)
    write<To>(to + i * sizeof(To), each(read<From>(from + i * sizeof(From))));
}

void Narrow(std::byte* to, Element from, const std::byte* source, std::size_t count,
            Narrowing narrowing) {
  if (from == Element::i32)
    loop<std::int32_t, float>(to, source, count, [](std::int32_t value) { return to_odd(value); });
  else if (narrowing == Narrowing::odd)
    loop<double, float>(to, source, count, [](double value) { return to_odd(value); });
  else
    loop<double, float>(to, source, count, [](double value) { return static_cast<float>(value); });
}

void Widen(std::byte* destination, const std::byte* source, std::size_t count) {
  loop<float, double>(destination, source, count,
                      [](float value) { return static_cast<double>(value); });
}

void WholeToDoubles(std::byte* to, const std::byte* source, std::size_t count) {
  loop<std::int32_t, double>(to, source, count,
                             [](std::int32_t value) { return static_cast<double>(value); });
}
void DoublesToWhole(std::byte* to, const std::byte* source, std::size_t count) {
  loop<double, std::int32_t>(to, source, count, [](double value) { return whole(value); });
}

/// A NaN becomes the one that every CPU agrees about.
template <class T>
HWY_INLINE T scaled(T value, T scale, T offset) {
  const T product = value * scale;
  const T sum = product + offset;
  constexpr T kNan = sizeof(T) == 4 ? static_cast<T>(std::bit_cast<float>(0x7fc00000u))
                                    : static_cast<T>(std::bit_cast<double>(0x7ff8000000000000u));
  return sum == sum ? sum : kNan;  // NOLINT(misc-redundant-expression): not so of a NaN
}

template <class T>
HWY_INLINE void scale_all(T* values, std::size_t count, T scale, T offset) {
  for (std::size_t i = 0; i < count; ++i) values[i] = scaled(values[i], scale, offset);
}
template <class T>
HWY_INLINE void scale_each(T* HWY_RESTRICT values, std::size_t count, const T* HWY_RESTRICT scales,
                           const T* HWY_RESTRICT offsets) {
  for (std::size_t i = 0; i < count; ++i) values[i] = scaled(values[i], scales[i], offsets[i]);
}

void ScaleFloats(float* values, std::size_t count, float scale, float offset) {
  scale_all(values, count, scale, offset);
}
void ScaleEachFloat(float* values, std::size_t count, const float* scales, const float* offsets) {
  scale_each(values, count, scales, offsets);
}
void ScaleDoubles(double* values, std::size_t count, double scale, double offset) {
  scale_all(values, count, scale, offset);
}
void ScaleEachDouble(double* values, std::size_t count, const double* scales,
                     const double* offsets) {
  scale_each(values, count, scales, offsets);
}

}  // namespace
}  // namespace gantry::shape::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry::shape {
namespace {

HWY_EXPORT(Narrow);
HWY_EXPORT(Widen);
HWY_EXPORT(WholeToDoubles);
HWY_EXPORT(DoublesToWhole);
HWY_EXPORT(ScaleFloats);
HWY_EXPORT(ScaleEachFloat);
HWY_EXPORT(ScaleDoubles);
HWY_EXPORT(ScaleEachDouble);

}  // namespace

void narrow(std::byte* to, Element from, const std::byte* source, std::size_t count,
            Narrowing narrowing) noexcept {
  HWY_DYNAMIC_DISPATCH(Narrow)(to, from, source, count, narrowing);
}
void widen(std::byte* destination, const std::byte* source, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(Widen)(destination, source, count);
}

void to_doubles(double* to, Element from, const std::byte* source, std::size_t count) noexcept {
  if (from == Element::i32)
    HWY_DYNAMIC_DISPATCH(WholeToDoubles)(reinterpret_cast<std::byte*>(to), source, count);
  else if (count > 0)
    std::memcpy(to, source, count * sizeof(double));
}
void from_doubles(Element to, std::byte* destination, const double* source,
                  std::size_t count) noexcept {
  const auto* from = reinterpret_cast<const std::byte*>(source);
  if (to == Element::i32)
    HWY_DYNAMIC_DISPATCH(DoublesToWhole)(destination, from, count);
  else if (count > 0)
    std::memcpy(destination, from, count * sizeof(double));
}

void scale_floats(float* values, std::size_t count, float scale, float offset) noexcept {
  HWY_DYNAMIC_DISPATCH(ScaleFloats)(values, count, scale, offset);
}
void scale_floats(float* values, std::size_t count, const float* scales,
                  const float* offsets) noexcept {
  HWY_DYNAMIC_DISPATCH(ScaleEachFloat)(values, count, scales, offsets);
}
void scale_doubles(double* values, std::size_t count, double scale, double offset) noexcept {
  HWY_DYNAMIC_DISPATCH(ScaleDoubles)(values, count, scale, offset);
}
void scale_doubles(double* values, std::size_t count, const double* scales,
                   const double* offsets) noexcept {
  HWY_DYNAMIC_DISPATCH(ScaleEachDouble)(values, count, scales, offsets);
}

}  // namespace gantry::shape
#endif  // HWY_ONCE
