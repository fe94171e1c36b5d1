#include "engine/shape/rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/shape/wide_rows.hpp"

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/shape/rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "engine/shape/row_codecs.hpp"

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

void ToFloats(std::byte* to, Element from, const std::byte* source, std::size_t count,
              bool streaming) {
  switch (from) {
    case Element::u8:
    case Element::u4:
      return row<U8, F32>(to, source, count, streaming);
    case Element::i8:
    case Element::i4:
      return row<I8, F32>(to, source, count, streaming);
    case Element::u16:
      return row<U16, F32>(to, source, count, streaming);
    case Element::i16:
      return row<I16, F32>(to, source, count, streaming);
    case Element::f16:
      return row<F16, F32>(to, source, count, streaming);
    case Element::bf16:
      return row<Bf16, F32>(to, source, count, streaming);
    case Element::e4m3fn:
      return row<E4m3fn, F32>(to, source, count, streaming);
    case Element::e5m2:
      return row<E5m2, F32>(to, source, count, streaming);
    case Element::e2m1:
      return row<E2m1, F32>(to, source, count, streaming);
    case Element::i32:
      return row<I32, F32>(to, source, count, streaming);
    case Element::f32:
    case Element::f64:
      break;  // the caller's
  }
}

void FromFloats(Element to, std::byte* destination, const std::byte* source, std::size_t count,
                bool streaming) {
  switch (to) {
    case Element::u8:
      return row<F32, U8>(destination, source, count, streaming);
    case Element::i8:
      return row<F32, I8>(destination, source, count, streaming);
    case Element::u16:
      return row<F32, U16>(destination, source, count, streaming);
    case Element::i16:
      return row<F32, I16>(destination, source, count, streaming);
    case Element::f16:
      return row<F32, F16>(destination, source, count, streaming);
    case Element::bf16:
      return row<F32, Bf16>(destination, source, count, streaming);
    case Element::e4m3fn:
      return row<F32, E4m3fn>(destination, source, count, streaming);
    case Element::e5m2:
      return row<F32, E5m2>(destination, source, count, streaming);
    case Element::u4:
      return row<F32, U4>(destination, source, count, streaming);
    case Element::i4:
      return row<F32, I4>(destination, source, count, streaming);
    case Element::e2m1:
      return row<F32, E2m1>(destination, source, count, streaming);
    case Element::i32:
      return row<F32, I32>(destination, source, count, streaming);
    case Element::f32:
    case Element::f64:
      break;  // the caller's
  }
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

}  // namespace gantry::shape
#endif  // HWY_ONCE
