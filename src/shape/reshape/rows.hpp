#pragma once  // reshape/rows.hpp: rows of elements, converted with the widest vectors that this CPU
              // has.

#include <cstddef>

#include "core/tensor/element.hpp"
#include "core/tensor/float_mode.hpp"
#include "core/tensor/groups.hpp"

// Every function takes any alignment and any count, 0 included; ranges do not overlap. The bits do
// not depend on the CPU: they are those of engine/shape/test_reference.hpp. The caller holds a
// FloatMode. Packed elements (two a byte) are handled as codes, one a byte: the low four bits, the
// upper four are copies of the sign bit for i4 and 0 for the others.
namespace gantry::shape {

/// How a wide value becomes a float.
enum class Narrowing : std::uint8_t {
  nearest,  ///< To nearest even: the float is what is wanted.
  odd       ///< To odd, if inexact: it will be rounded once more, to fewer digits, and the sum of
            ///< both is one rounding to nearest even.
};

/// Elements to floats: exact, but for i32 and f64.
void to_floats(float* to, Element from, const std::byte* source, std::size_t count,
               Narrowing narrowing) noexcept;
/// The rules of ReshapePlan. `streaming`: past the cache, where lines are whole and this CPU's
/// vectors wide enough. The end of the FloatMode orders such stores.
void from_floats(Element to, std::byte* destination, const float* source, std::size_t count,
                 bool streaming) noexcept;
/// Any element to any other, as to_floats() and from_floats() in turn, but in registers where that
/// is quicker. i32 and f64 between each other: through doubles.
void convert(Element to, std::byte* destination, Element from, const std::byte* source,
             std::size_t count, bool streaming) noexcept;

/// values[i] = values[i] * scale + offset, rounded after each operation.
void scale_floats(float* values, std::size_t count, float scale, float offset) noexcept;
/// The same with a scale and an offset for each.
void scale_floats(float* values, std::size_t count, const float* scales,
                  const float* offsets) noexcept;
/// What to_floats() of u8 and scale_floats() make in turn. Any alignment, any count. `streaming`:
/// past the cache, where lines are whole.
void scaled_floats(std::byte* floats, const std::byte* source, std::size_t count, float scale,
                   float offset, bool streaming) noexcept;
/// i32 and f64 only.
void to_doubles(double* to, Element from, const std::byte* source, std::size_t count) noexcept;
void from_doubles(Element to, std::byte* destination, const double* source,
                  std::size_t count) noexcept;
void scale_doubles(double* values, std::size_t count, double scale, double offset) noexcept;
void scale_doubles(double* values, std::size_t count, const double* scales,
                   const double* offsets) noexcept;

/// Numbers [first, first + count) of packed ones to codes.
void unpack(std::byte* codes, Element from, const std::byte* source, std::size_t first,
            std::size_t count) noexcept;
/// Codes to packed numbers, the first to the low half of a byte; an odd last one leaves the high
/// half 0. Upper halves of codes are ignored.
void pack(std::byte* destination, const std::byte* codes, std::size_t count) noexcept;

/// `count` whole groups to floats and back. See Groups in gantry/types.hpp and
/// docs/formats/shape.md.
void groups_to_floats(float* to, const Groups& groups, const std::byte* source,
                      std::size_t count) noexcept;
void floats_to_groups(std::byte* destination, const Groups& groups, const float* source,
                      std::size_t count) noexcept;

/// Every `step`th of elements of 1, 2, 4 or 8 bytes, to where they lie together.
void gather(std::byte* destination, const std::byte* source, std::size_t step, std::size_t count,
            unsigned element_bytes) noexcept;
/// The first of each of `streams` (2 to 4), then the second of each, and so on.
void interleave(std::byte* destination, const std::byte* const* sources, unsigned streams,
                std::size_t count, unsigned element_bytes) noexcept;

}  // namespace gantry::shape
