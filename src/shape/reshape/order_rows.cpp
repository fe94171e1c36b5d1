#include <algorithm>
#include <cstring>

#include "shape/reshape/rows.hpp"

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shape/reshape/order_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

// Elements that change their places and not their bits.
HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// ---- every step-th element ----------------------------------------------------------------------

template <class T>
HWY_INLINE void each(std::byte* to, const std::byte* from, std::size_t step, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to + i * sizeof(T), from + i * step * sizeof(T), sizeof(T));
}

template <std::size_t kStep, class Vectors, class T>
HWY_INLINE auto every(Vectors vectors, const T* from) {
  hn::Vec<Vectors> first, second, third, fourth;
  if constexpr (kStep == 2)
    hn::LoadInterleaved2(vectors, from, first, second);
  else if constexpr (kStep == 3)
    hn::LoadInterleaved3(vectors, from, first, second, third);
  else
    hn::LoadInterleaved4(vectors, from, first, second, third, fourth);
  return first;
}

// What lies behind the last element is not read.
template <std::size_t kStep, class T>
void gather_steps(std::byte* to, const std::byte* from, std::size_t count) {
  const hn::ScalableTag<T> vectors;
  constexpr std::size_t kLanes = hn::MaxLanes(vectors);
  std::size_t i = 0;
  for (; i + kLanes < count; i += kLanes)
    hn::StoreU(every<kStep>(vectors, reinterpret_cast<const T*>(from) + i * kStep), vectors,
               reinterpret_cast<T*>(to) + i);
  each<T>(to + i * sizeof(T), from + i * kStep * sizeof(T), kStep, count - i);
}

template <class T>
HWY_INLINE void gather_elements(std::byte* to, const std::byte* from, std::size_t step,
                                std::size_t count) {
  if constexpr (sizeof(T) < 8) {
    if (step == 2) return gather_steps<2, T>(to, from, count);
    if (step == 3) return gather_steps<3, T>(to, from, count);
    if (step == 4) return gather_steps<4, T>(to, from, count);
  }
  each<T>(to, from, step, count);
}

/// Calls `use` with a whole number of that many bytes.
template <class Use>
HWY_INLINE void with_bytes(unsigned element_bytes, Use use) {
  if (element_bytes == 1) return use(std::uint8_t());
  if (element_bytes == 2) return use(std::uint16_t());
  if (element_bytes == 4) return use(std::uint32_t());
  return use(std::uint64_t());
}

void Gather(std::byte* to, const std::byte* from, std::size_t step, std::size_t count,
            unsigned element_bytes) {
  with_bytes(element_bytes, [&](auto element) HWY_ATTR {
    gather_elements<decltype(element)>(to, from, step, count);
  });
}

// ---- streams between each other -----------------------------------------------------------------

template <class T, class Vectors>
HWY_INLINE auto from_stream(Vectors vectors, const std::byte* const* sources, unsigned stream,
                            std::size_t i) {
  return hn::LoadU(vectors, reinterpret_cast<const T*>(sources[stream]) + i);
}

template <unsigned kStreams, class T>
HWY_INLINE void interleave_vectors(T* to, const std::byte* const* sources, std::size_t i) {
  const hn::ScalableTag<T> vectors;
  const auto first = from_stream<T>(vectors, sources, 0, i);
  const auto second = from_stream<T>(vectors, sources, 1, i);
  if constexpr (kStreams == 2) {
    hn::StoreInterleaved2(first, second, vectors, to);
  } else if constexpr (kStreams == 3) {
    hn::StoreInterleaved3(first, second, from_stream<T>(vectors, sources, 2, i), vectors, to);
  } else {
    hn::StoreInterleaved4(first, second, from_stream<T>(vectors, sources, 2, i),
                          from_stream<T>(vectors, sources, 3, i), vectors, to);
  }
}

template <unsigned kStreams, class T>
void interleave_streams(std::byte* to, const std::byte* const* sources, std::size_t count) {
  constexpr std::size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  std::size_t i = 0;
  if constexpr (sizeof(T) < 8)
    for (; i + kLanes <= count; i += kLanes)
      interleave_vectors<kStreams>(reinterpret_cast<T*>(to) + i * kStreams, sources, i);
  for (; i < count; ++i)
    for (unsigned stream = 0; stream < kStreams; ++stream)
      std::memcpy(to + (i * kStreams + stream) * sizeof(T), sources[stream] + i * sizeof(T),
                  sizeof(T));
}

template <class T>
HWY_INLINE void interleave_elements(std::byte* to, const std::byte* const* sources,
                                    unsigned streams, std::size_t count) {
  if (streams == 2) return interleave_streams<2, T>(to, sources, count);
  if (streams == 3) return interleave_streams<3, T>(to, sources, count);
  interleave_streams<4, T>(to, sources, count);
}

void Interleave(std::byte* to, const std::byte* const* sources, unsigned streams, std::size_t count,
                unsigned element_bytes) {
  with_bytes(element_bytes, [&](auto element) HWY_ATTR {
    interleave_elements<decltype(element)>(to, sources, streams, count);
  });
}

// ---- two numbers a byte -------------------------------------------------------------------------

using Codes = hn::ScalableTag<std::uint8_t>;
constexpr std::size_t kCodes = hn::MaxLanes(Codes());

HWY_INLINE hn::Vec<Codes> low_half(hn::Vec<Codes> bytes) {
  return hn::And(bytes, hn::Set(Codes(), 0xf));
}
// Highway shifts no bytes: the halves come by way of words of 16 bits.
HWY_INLINE hn::Vec<Codes> high_half(hn::Vec<Codes> bytes) {
  if constexpr (kCodes == 1) {
    return hn::Set(Codes(), static_cast<std::uint8_t>(hn::GetLane(bytes) >> 4));
  } else {
    const hn::Repartition<std::uint16_t, Codes> words;
    return low_half(hn::BitCast(Codes(), hn::ShiftRight<4>(hn::BitCast(words, bytes))));
  }
}
HWY_INLINE hn::Vec<Codes> raised(hn::Vec<Codes> codes) {  // of codes below 16
  if constexpr (kCodes == 1) {
    return hn::Set(Codes(), static_cast<std::uint8_t>(hn::GetLane(codes) << 4));
  } else {
    const hn::Repartition<std::uint16_t, Codes> words;
    return hn::BitCast(Codes(), hn::ShiftLeft<4>(hn::BitCast(words, codes)));
  }
}
// With 8 in `sign` the code's highest bit is copied to those above it.
HWY_INLINE hn::Vec<Codes> extended(hn::Vec<Codes> code, hn::Vec<Codes> sign) {
  return hn::Sub(hn::Xor(code, sign), sign);
}

// Of whole bytes. Those that did not fill a vector are left to the caller; returns the rest.
std::size_t Unpack(std::uint8_t* codes, const std::uint8_t* source, std::size_t bytes,
                   std::uint8_t sign) {
  const auto signs = hn::Set(Codes(), sign);
  std::size_t i = 0;
  for (; i + kCodes <= bytes; i += kCodes) {
    const auto packed = hn::LoadU(Codes(), source + i);
    hn::StoreInterleaved2(extended(low_half(packed), signs), extended(high_half(packed), signs),
                          Codes(), codes + 2 * i);
  }
  return bytes - i;
}

std::size_t Pack(std::uint8_t* destination, const std::uint8_t* codes, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + kCodes <= bytes; i += kCodes) {
    hn::Vec<Codes> low, high;
    hn::LoadInterleaved2(Codes(), codes + 2 * i, low, high);
    hn::StoreU(hn::Or(low_half(low), raised(low_half(high))), Codes(), destination + i);
  }
  return bytes - i;
}

}  // namespace
}  // namespace gantry::shape::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry::shape {
namespace {

HWY_EXPORT(Gather);
HWY_EXPORT(Interleave);
HWY_EXPORT(Unpack);
HWY_EXPORT(Pack);

std::uint8_t code_at(const std::uint8_t* packed, std::size_t index, std::uint8_t sign) noexcept {
  const unsigned code = packed[index / 2] >> (index % 2 * 4) & 0xfu;
  return static_cast<std::uint8_t>((code ^ sign) - sign);
}

}  // namespace

void gather(std::byte* destination, const std::byte* source, std::size_t step, std::size_t count,
            unsigned element_bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(Gather)(destination, source, step, count, element_bytes);
}

void interleave(std::byte* destination, const std::byte* const* sources, unsigned streams,
                std::size_t count, unsigned element_bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(Interleave)(destination, sources, streams, count, element_bytes);
}

void unpack(std::byte* codes, Element from, const std::byte* source, std::size_t first,
            std::size_t count) noexcept {
  const std::uint8_t sign = from == Element::i4 ? 8 : 0;
  auto* to = reinterpret_cast<std::uint8_t*>(codes);
  const auto* packed = reinterpret_cast<const std::uint8_t*>(source);
  if (count > 0 && first % 2 != 0) {
    *to++ = code_at(packed, first++, sign);
    --count;
  }
  packed += first / 2;
  std::size_t i = count - count % 2;
  i -= 2 * HWY_DYNAMIC_DISPATCH(Unpack)(to, packed, count / 2, sign);
  for (; i < count; ++i) to[i] = code_at(packed, i, sign);
}

void pack(std::byte* destination, const std::byte* codes, std::size_t count) noexcept {
  auto* to = reinterpret_cast<std::uint8_t*>(destination);
  const auto* from = reinterpret_cast<const std::uint8_t*>(codes);
  const std::size_t bytes = count / 2;
  std::size_t i = bytes - HWY_DYNAMIC_DISPATCH(Pack)(to, from, bytes);
  for (; i < bytes; ++i)
    to[i] = static_cast<std::uint8_t>((from[2 * i] & 0xfu) | unsigned{from[2 * i + 1]} << 4);
  if (count % 2 != 0) to[i] = from[2 * i] & 0xfu;
}

}  // namespace gantry::shape
#endif  // HWY_ONCE
