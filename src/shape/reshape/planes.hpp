#pragma once  // reshape/planes.hpp: elements cut into planes of bytes or bits, and put together
              // again.

#include <gantry/shape.hpp>

#include "core/tensor/element.hpp"

namespace gantry::shape {

/// Where everything lies in the planes of a dense run of elements: the image. See
/// docs/formats/planes.md. A plain value; "dense" means the elements one behind the other.
class PlaneLayout {
 public:
  /// Errors: `invalid_argument` for numbers of 4 bits, Planes::Unit::none, a block that is no
  /// multiple of 8, less than one element, and more than 2^56.
  [[nodiscard]] static Result<PlaneLayout> make(Element element, std::int64_t count,
                                                const Planes& planes);

  [[nodiscard]] Element element() const noexcept { return element_; }
  [[nodiscard]] unsigned element_bytes() const noexcept { return element_bytes_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] bool in_bits() const noexcept { return in_bits_; }
  /// Planes of a block, without the bounds.
  [[nodiscard]] unsigned planes() const noexcept {
    return in_bits_ ? element_bytes_ * 8 : element_bytes_;
  }
  [[nodiscard]] Bytes bytes() const noexcept;  ///< Of the image.
  [[nodiscard]] Bytes dense_bytes() const noexcept { return count_ * element_bytes_; }
  /// Bytes of a whole block in the image; the best places to cut it. The last may be smaller.
  [[nodiscard]] Bytes unit() const noexcept { return block_bytes(block_); }
  /// The same in the dense elements.
  [[nodiscard]] Bytes dense_unit() const noexcept { return block_ * element_bytes_; }

  [[nodiscard]] std::size_t block() const noexcept { return block_; }  ///< Elements of each.
  [[nodiscard]] std::size_t blocks() const noexcept { return (count_ + block_ - 1) / block_; }
  [[nodiscard]] std::size_t elements_of(std::size_t block) const noexcept {
    return block + 1 == blocks() ? count_ - block * block_ : block_;
  }
  /// Elements of a group with bounds; 0: there are no bounds.
  [[nodiscard]] std::size_t group() const noexcept { return group_; }
  [[nodiscard]] std::size_t groups_of(std::size_t block) const noexcept {
    return groups(elements_of(block));
  }
  /// Offsets in the image. A group's bounds are two codes, the lower first, from its block's offset
  /// on, one group behind the other.
  [[nodiscard]] Bytes offset_of(std::size_t block) const noexcept { return block * unit(); }
  [[nodiscard]] Bytes offset_of(std::size_t block, unsigned plane) const noexcept {
    return offset_of(block) + bounds_bytes(elements_of(block)) + plane * plane_bytes(block);
  }
  [[nodiscard]] Bytes plane_bytes(std::size_t block) const noexcept {
    return in_bits_ ? (elements_of(block) + 7) / 8 : elements_of(block);
  }

  /// A range of the dense elements that holds all of which this range of the image is made.
  [[nodiscard]] ByteRange dense_of(ByteRange image) const noexcept;
  /// A range of the image that holds all of which this range of the dense elements is made.
  [[nodiscard]] ByteRange image_of(ByteRange dense) const noexcept;
  /// How much of the image, from its front, can be made of the first bytes of the dense elements.
  [[nodiscard]] Bytes image_from(Bytes dense_prefix) const noexcept;
  /// How much of the dense elements, from their front, can be made of the image's first bytes.
  [[nodiscard]] Bytes dense_from(Bytes image_prefix) const noexcept;

  friend bool operator==(const PlaneLayout&, const PlaneLayout&) = default;

 private:
  /// The elements of a block of which these bytes of it are made, as a range.
  [[nodiscard]] ByteRange elements_in(std::size_t block, Bytes from, Bytes end) const noexcept;
  [[nodiscard]] std::size_t groups(std::size_t elements) const noexcept {
    return group_ == 0 ? 0 : (elements + group_ - 1) / group_;
  }
  [[nodiscard]] Bytes bounds_bytes(std::size_t elements) const noexcept {
    return groups(elements) * 2 * element_bytes_;
  }
  [[nodiscard]] Bytes block_bytes(std::size_t elements) const noexcept {
    return bounds_bytes(elements) + planes() * (in_bits_ ? (elements + 7) / 8 : elements);
  }

  Element element_ = Element::u8;
  unsigned element_bytes_ = 1;
  bool in_bits_ = false;
  std::size_t count_ = 0;
  std::size_t block_ = 0;  // never more than count_
  std::size_t group_ = 0;
};

/// Makes bytes [from, from + bytes) of the image, which are at `to`, of all the dense elements.
void make_planes(const PlaneLayout& layout, std::byte* to, Bytes from, Bytes bytes,
                 const std::byte* dense) noexcept;
/// Makes bytes [from, from + bytes) of the dense elements, which are at `to`, of the whole image.
/// Does not look at bounds.
void join_planes(const PlaneLayout& layout, std::byte* to, Bytes from, Bytes bytes,
                 const std::byte* image) noexcept;

/// The code of an element whose bits these are, and the bits of the element with that code: the
/// order of the codes as whole numbers without sign is that of the elements' values. -0 is before
/// +0; NaNs are beyond the infinities, those with a sign below -infinity.
[[nodiscard]] std::uint64_t code_of(Element element, std::uint64_t bits) noexcept;
[[nodiscard]] std::uint64_t bits_of(Element element, std::uint64_t code) noexcept;

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
