#include "engine/shape/rows.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/shape/reference.hpp"

// A start, an element at a time.
namespace gantry::shape {
namespace {

std::size_t bytes_of(Element element) noexcept {
  return facts_of(element).bits < 8 ? 1 : facts_of(element).bits / 8;
}

float odd_float(double value) noexcept {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

}  // namespace

void to_floats(float* to, Element from, const std::byte* source, std::size_t count,
               Narrowing narrowing) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = source + i * bytes_of(from);
    if (is_wide(from) && narrowing == Narrowing::odd) {
      double value = 0;
      to_doubles(&value, from, at, 1);
      to[i] = odd_float(value);
    } else {
      reference::convert(Element::f32, reinterpret_cast<std::byte*>(to + i), from, at);
    }
  }
}

void from_floats(Element to, std::byte* destination, const float* source, std::size_t count,
                 bool streaming) noexcept {
  convert(to, destination, Element::f32, reinterpret_cast<const std::byte*>(source), count,
          streaming);
}

void convert(Element to, std::byte* destination, Element from, const std::byte* source,
             std::size_t count, bool) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    reference::convert(to, destination + i * bytes_of(to), from, source + i * bytes_of(from));
}

void scale_floats(float* values, std::size_t count, float scale, float offset) noexcept {
  for (std::size_t i = 0; i < count; ++i) reference::scale(values + i, scale, offset);
}
void scale_floats(float* values, std::size_t count, const float* scales,
                  const float* offsets) noexcept {
  for (std::size_t i = 0; i < count; ++i) reference::scale(values + i, scales[i], offsets[i]);
}
void to_doubles(double* to, Element from, const std::byte* source, std::size_t count) noexcept {
  convert(Element::f64, reinterpret_cast<std::byte*>(to), from, source, count, false);
}
void from_doubles(Element to, std::byte* destination, const double* source,
                  std::size_t count) noexcept {
  convert(to, destination, Element::f64, reinterpret_cast<const std::byte*>(source), count, false);
}
void scale_doubles(double* values, std::size_t count, double scale, double offset) noexcept {
  for (std::size_t i = 0; i < count; ++i) reference::scale(values + i, scale, offset);
}
void scale_doubles(double* values, std::size_t count, const double* scales,
                   const double* offsets) noexcept {
  for (std::size_t i = 0; i < count; ++i) reference::scale(values + i, scales[i], offsets[i]);
}

void unpack(std::byte* codes, Element from, const std::byte* source, std::size_t first,
            std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte code = source[(first + i) / 2] >> ((first + i) % 2 * 4) & std::byte{0xf};
    const bool negative = from == Element::i4 && (code & std::byte{8}) != std::byte{0};
    codes[i] = negative ? code | std::byte{0xf0} : code;
  }
}
void pack(std::byte* destination, const std::byte* codes, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    if (i % 2 == 0)
      destination[i / 2] = codes[i] & std::byte{0xf};
    else
      destination[i / 2] |= codes[i] << 4;
}

void groups_to_floats(float* to, const Groups& groups, const std::byte* source,
                      std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    reference::group_to_floats(to + i * groups.size, groups, source + i * bytes_of(groups));
}
void floats_to_groups(std::byte* destination, const Groups& groups, const float* source,
                      std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    reference::floats_to_group(destination + i * bytes_of(groups), groups,
                               source + i * groups.size);
}

void gather(std::byte* destination, const std::byte* source, std::size_t step, std::size_t count,
            unsigned element_bytes) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(destination + i * element_bytes, source + i * step * element_bytes, element_bytes);
}
void interleave(std::byte* destination, const std::byte* const* sources, unsigned streams,
                std::size_t count, unsigned element_bytes) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    for (unsigned stream = 0; stream < streams; ++stream)
      std::memcpy(destination + (i * streams + stream) * element_bytes,
                  sources[stream] + i * element_bytes, element_bytes);
}

}  // namespace gantry::shape
