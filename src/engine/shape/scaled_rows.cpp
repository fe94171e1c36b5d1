#include "engine/shape/scaled_rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/shape/scaled_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "engine/shape/row_codecs.hpp"

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

constexpr std::size_t kLine = 64;

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
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % kLine;  // of the first line
  std::size_t done = 0;
  if (streaming && before % sizeof(float) == 0) {
    done = std::min(count, before / sizeof(float));
    row(to, from, done, scaling);
    const std::size_t lines = (count - done) * sizeof(float) / kLine * kLine / sizeof(float);
    done += whole_vectors<true>(to + done * sizeof(float), from + done, lines, scaling);
  }
  row(to + done * sizeof(float), from + done, count - done, scaling);
}

}  // namespace
}  // namespace gantry::shape::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry::shape {
namespace {
HWY_EXPORT(ScaledFloats);
}  // namespace

void scaled_floats(std::byte* floats, const std::byte* source, std::size_t count, float scale,
                   float offset, bool streaming) noexcept {
  HWY_DYNAMIC_DISPATCH(ScaledFloats)(floats, source, count, scale, offset, streaming);
}

}  // namespace gantry::shape
#endif  // HWY_ONCE
