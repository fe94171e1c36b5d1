#pragma once  // engine/shape/plane_rows.hpp: a few elements to rows, one a plane, and back, within
              // the first cache.

#include "engine/shape/element.hpp"

namespace gantry::shape {

/// Elements that are handled at a time; rows in memory of ours begin so far apart.
inline constexpr std::size_t kPlaneTile = 2048;
/// Room for all rows of a tile.
struct PlaneTile {
  alignas(64) std::byte rows[kPlaneTile * 8];
};

/// How bits become a code: xor with `always`, and of floats with all ones besides if the sign says
/// so.
struct PlaneCoding {
  unsigned element_bytes;
  bool is_float;
  bool is_signed;  ///< Floats are.
};
[[nodiscard]] PlaneCoding coding_of(Element element) noexcept;

/// Rows [first, last) of bytes, the highest of a code being row 0, to rows kPlaneTile apart of
/// which `to` holds the first. At most kPlaneTile elements.
void split_bytes(const PlaneCoding& coding, std::byte* to, unsigned first, unsigned last,
                 const std::byte* elements, std::size_t count) noexcept;
/// `rows`: where each row of bytes begins.
void join_bytes(const PlaneCoding& coding, std::byte* elements, const std::byte* const* rows,
                std::size_t count) noexcept;

/// A row of bytes to its 8 rows of bits, kPlaneTile / 8 apart, the highest first. Reads as many
/// bytes as fill whole ones of the rows.
void split_bits(std::byte* to, const std::byte* row, std::size_t count) noexcept;
/// The reverse. `rows`: where each of the 8 begins. Writes a multiple of 8 bytes.
void join_bits(std::byte* row, const std::byte* const* rows, std::size_t count) noexcept;

/// Bit j of byte i becomes bit i of byte j (Hacker's Delight, 7-3).
[[nodiscard]] inline std::uint64_t transpose_bits(std::uint64_t x) noexcept {
  std::uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aau;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000cccc0000ccccu;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0u;
  return x ^ t ^ (t << 28);
}

/// The least and the largest code of `count` elements, at least 1.
struct CodeRange {
  std::uint64_t least, largest;
};
[[nodiscard]] CodeRange code_range(const PlaneCoding& coding, const std::byte* elements,
                                   std::size_t count) noexcept;

}  // namespace gantry::shape
