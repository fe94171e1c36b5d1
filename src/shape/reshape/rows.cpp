#include "shape/reshape/rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shape/reshape/rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "shape/reshape/row_codecs.hpp"

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

// The last ones, by way of a whole vector.
template <class From, class To>
HWY_NOINLINE void rest_of_row(std::byte* to, const std::byte* from, std::size_t count) {
  alignas(64) std::array<std::byte, kLanes * From::kBytes> source{};
  alignas(64) std::array<std::byte, kLanes * To::kBytes> made;  // NOLINT: written before it is read
  std::memcpy(source.data(), from, count * From::kBytes);
  put_vector<To, false>(From::get(source.data()), made.data());
  std::memcpy(to, made.data(), count * To::kBytes);
}

template <class From, class To, bool kStreaming>
HWY_INLINE void four_vectors(std::byte* to, const std::byte* from) {
  constexpr std::size_t kIn = kLanes * From::kBytes, kOut = kLanes * To::kBytes;
  const Float a = From::get(from), b = From::get(from + kIn);
  const Float c = From::get(from + 2 * kIn), d = From::get(from + 3 * kIn);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (HasCodes<To>) return put_codes<To, kStreaming>(a, b, c, d, to);
#endif
  if constexpr (PutsTwo<To>) {
    To::template put_two<kStreaming>(a, b, to);
    return To::template put_two<kStreaming>(c, d, to + 2 * kOut);
  }
  put_vector<To, kStreaming>(a, to);
  put_vector<To, kStreaming>(b, to + kOut);
  put_vector<To, kStreaming>(c, to + 2 * kOut);
  put_vector<To, kStreaming>(d, to + 3 * kOut);
}

template <class From, class To, bool kStreaming>
HWY_INLINE std::size_t whole_vectors(std::byte* to, const std::byte* from, std::size_t count) {
  constexpr std::size_t kIn = kLanes * From::kBytes, kOut = kLanes * To::kBytes;
  std::size_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes, from += 4 * kIn, to += 4 * kOut)
    four_vectors<From, To, kStreaming>(to, from);
  for (; i + kLanes <= count; i += kLanes, from += kIn, to += kOut)
    put_vector<To, kStreaming>(From::get(from), to);
  return i;
}

template <class From, class To>
void row(std::byte* to, const std::byte* from, std::size_t count, bool streaming) {
  std::size_t done = 0;
  if constexpr (kLanes > 1) {
    const std::size_t line = reinterpret_cast<std::uintptr_t>(to) % 64;
    const std::size_t head = line == 0 ? 0 : (64 - line) / To::kBytes;
    if (streaming && line % To::kBytes == 0 && count >= head + 64 / To::kBytes) {
      row<From, To>(to, from, head, false);
      const std::size_t lines = (count - head) * To::kBytes / 64 * 64 / To::kBytes;
      done = head + whole_vectors<From, To, true>(to + head * To::kBytes,
                                                  from + head * From::kBytes, lines);
    }
  }
  done += whole_vectors<From, To, false>(to + done * To::kBytes, from + done * From::kBytes,
                                         count - done);
  if (done < count)
    rest_of_row<From, To>(to + done * To::kBytes, from + done * From::kBytes, count - done);
}

// Bytes as they are, in whole lines.
void CopyLines(std::byte* to, const std::byte* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> vectors;
  const auto* source = reinterpret_cast<const std::uint8_t*>(from);
  auto* destination = reinterpret_cast<std::uint8_t*>(to);
  for (std::size_t at = 0; at < bytes; at += hn::MaxLanes(vectors))
    hn::Stream(hn::LoadU(vectors, source + at), vectors, destination + at);
}

// In the order of Element; f32 and f64 are the caller's.
using Row = void (*)(std::byte*, const std::byte*, std::size_t, bool);
constexpr std::array<Row, kElements> kToFloats{
    row<U8, F32>,   row<I8, F32>,   row<U16, F32>, row<I16, F32>, row<I32, F32>,
    row<F16, F32>,  row<Bf16, F32>, nullptr,       nullptr,       row<E4m3fn, F32>,
    row<E5m2, F32>, row<U8, F32>,   row<I8, F32>,  row<E2m1, F32>};
constexpr std::array<Row, kElements> kFromFloats{
    row<F32, U8>,   row<F32, I8>,   row<F32, U16>, row<F32, I16>, row<F32, I32>,
    row<F32, F16>,  row<F32, Bf16>, nullptr,       nullptr,       row<F32, E4m3fn>,
    row<F32, E5m2>, row<F32, U4>,   row<F32, I4>,  row<F32, E2m1>};

void ToFloats(std::byte* to, Element from, const std::byte* source, std::size_t count,
              bool streaming) {
  kToFloats[static_cast<std::size_t>(from)](to, source, count, streaming);
}
void FromFloats(Element to, std::byte* destination, const std::byte* source, std::size_t count,
                bool streaming) {
  kFromFloats[static_cast<std::size_t>(to)](destination, source, count, streaming);
}

// The pairs without a float at either end that are converted in registers.
bool Fused(Element to, std::byte* destination, Element from, const std::byte* source,
           std::size_t count, bool streaming) {
  if (from == Element::u8 && to == Element::bf16)
    row<U8, ExactBf16>(destination, source, count, streaming);
  else if (from == Element::u8 && to == Element::f16)
    row<U8, F16>(destination, source, count, streaming);
  else if (from == Element::bf16 && to == Element::f16)
    row<Bf16, F16>(destination, source, count, streaming);
  else if (from == Element::f16 && to == Element::bf16)
    row<F16, Bf16>(destination, source, count, streaming);
  else
    return false;
  return true;
}

// ---- bytes to scaled floats
// ----------------------------------------------------------------------

/// value * scale + offset, each rounded.
struct Scaling {
  Float scale, offset;
  HWY_INLINE Float of(const std::byte* at) const {
    return hn::Add(hn::Mul(U8::get(at), scale), offset);
  }
};

template <bool kStreaming>
HWY_INLINE std::size_t whole_vectors(std::byte* to, const std::byte* from, std::size_t count,
                                     const Scaling& scaling) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    store<float, kStreaming>(scaling.of(from + i), to + i * sizeof(float));
  return i;
}

// The last ones by way of a whole vector.
HWY_INLINE void row(std::byte* to, const std::byte* from, std::size_t count,
                    const Scaling& scaling) {
  const std::size_t done = whole_vectors<false>(to, from, count, scaling);
  if (done == count) return;
  std::array<std::byte, kLanes> source{};
  std::array<std::byte, kLanes * sizeof(float)> made;  // NOLINT: written before it is read
  std::memcpy(source.data(), from + done, count - done);
  store<float, false>(scaling.of(source.data()), made.data());
  std::memcpy(to + done * sizeof(float), made.data(), (count - done) * sizeof(float));
}

void ScaledFloats(std::byte* to, const std::byte* from, std::size_t count, float scale,
                  float offset, bool streaming) {
  const Scaling scaling{hn::Set(Floats(), scale), hn::Set(Floats(), offset)};
  const std::size_t before =
      -reinterpret_cast<std::uintptr_t>(to) % std::size_t{64};  // of the first line
  std::size_t done = 0;
  if (streaming && before % sizeof(float) == 0) {
    done = std::min(count, before / sizeof(float));
    row(to, from, done, scaling);
    const std::size_t lines =
        (count - done) * sizeof(float) / std::size_t{64} * std::size_t{64} / sizeof(float);
    done += whole_vectors<true>(to + done * sizeof(float), from + done, lines, scaling);
  }
  row(to + done * sizeof(float), from + done, count - done, scaling);
}

// ---- doubles: plain loops, of which the compiler makes vectors
// -----------------------------------

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

void NarrowWide(std::byte* to, Element from, const std::byte* source, std::size_t count,
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

HWY_EXPORT(CopyLines);
HWY_EXPORT(ToFloats);
HWY_EXPORT(FromFloats);
HWY_EXPORT(Fused);
HWY_EXPORT(ScaledFloats);
HWY_EXPORT(NarrowWide);
HWY_EXPORT(Widen);
HWY_EXPORT(WholeToDoubles);
HWY_EXPORT(DoublesToWhole);
HWY_EXPORT(ScaleFloats);
HWY_EXPORT(ScaleEachFloat);
HWY_EXPORT(ScaleDoubles);
HWY_EXPORT(ScaleEachDouble);

constexpr std::size_t kLine = 64;
constexpr std::size_t kTile = 1024;  // floats that stay in the first-level cache

std::size_t bytes_of(Element element) noexcept {
  return is_packed(element) ? 1 : facts_of(element).bits / 8;
}

std::byte* raw(float* floats) noexcept {
  return reinterpret_cast<std::byte*>(floats);
}
const std::byte* raw(const float* floats) noexcept {
  return reinterpret_cast<const std::byte*>(floats);
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool streaming) noexcept {
  if (bytes == 0) return;
  std::size_t done = 0;
  if (streaming && bytes >= 2 * kLine) {
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kLine;
    done = head + (bytes - head) / kLine * kLine;
    std::memcpy(to, from, head);
    HWY_DYNAMIC_DISPATCH(CopyLines)(to + head, from + head, done - head);
  }
  std::memcpy(to + done, from + done, bytes - done);
}

// From i32 or f64 to floats, of any alignment.
void narrow(std::byte* to, Element from, const std::byte* source, std::size_t count,
            Narrowing narrowing) noexcept {
  HWY_DYNAMIC_DISPATCH(NarrowWide)(to, from, source, count, narrowing);
}
// From floats, of any alignment, to f64.
void widen(std::byte* destination, const std::byte* source, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(Widen)(destination, source, count);
}

void through_doubles(Element to, std::byte* destination, Element from, const std::byte* source,
                     std::size_t count) noexcept {
  std::array<double, kTile / 2> tile;  // NOLINT: written before it is read
  for (std::size_t i = 0; i < count; i += tile.size()) {
    const std::size_t now = std::min(tile.size(), count - i);
    to_doubles(tile.data(), from, source + i * bytes_of(from), now);
    from_doubles(to, destination + i * bytes_of(to), tile.data(), now);
  }
}

// Tiles end where lines of the destination do.
void through_floats(Element to, std::byte* destination, Element from, const std::byte* source,
                    std::size_t count, bool streaming) noexcept {
  alignas(64) std::array<float, kTile> tile;  // NOLINT: written before it is read
  std::size_t most = kTile - reinterpret_cast<std::uintptr_t>(destination) % kLine / bytes_of(to);
  for (std::size_t i = 0; i < count; most = kTile) {
    const std::size_t now = std::min(most, count - i);
    to_floats(tile.data(), from, source + i * bytes_of(from), now, Narrowing::odd);
    from_floats(to, destination + i * bytes_of(to), tile.data(), now, streaming);
    i += now;
  }
}

}  // namespace

void to_floats(float* to, Element from, const std::byte* source, std::size_t count,
               Narrowing narrowing) noexcept {
  if (from == Element::f32) return copy(raw(to), source, count * sizeof(float), false);
  if (from == Element::f64 || (from == Element::i32 && narrowing == Narrowing::odd))
    return narrow(raw(to), from, source, count, narrowing);
  HWY_DYNAMIC_DISPATCH(ToFloats)(raw(to), from, source, count, false);
}

void from_floats(Element to, std::byte* destination, const float* source, std::size_t count,
                 bool streaming) noexcept {
  if (to == Element::f32) return copy(destination, raw(source), count * sizeof(float), streaming);
  if (to == Element::f64) return widen(destination, raw(source), count);
  HWY_DYNAMIC_DISPATCH(FromFloats)(to, destination, raw(source), count, streaming);
}

void convert(Element to, std::byte* destination, Element from, const std::byte* source,
             std::size_t count, bool streaming) noexcept {
  if (to == from) return copy(destination, source, count * bytes_of(to), streaming);
  if (is_wide(to) && is_wide(from)) return through_doubles(to, destination, from, source, count);
  if (to == Element::f32 && from == Element::f64)
    return narrow(destination, from, source, count, Narrowing::nearest);
  if (to == Element::f64 && from == Element::f32) return widen(destination, source, count);
  if (to == Element::f32)
    return HWY_DYNAMIC_DISPATCH(ToFloats)(destination, from, source, count, streaming);
  if (from == Element::f32)
    return HWY_DYNAMIC_DISPATCH(FromFloats)(to, destination, source, count, streaming);
  if (!HWY_DYNAMIC_DISPATCH(Fused)(to, destination, from, source, count, streaming))
    through_floats(to, destination, from, source, count, streaming);
}

void scaled_floats(std::byte* floats, const std::byte* source, std::size_t count, float scale,
                   float offset, bool streaming) noexcept {
  HWY_DYNAMIC_DISPATCH(ScaledFloats)(floats, source, count, scale, offset, streaming);
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
