#pragma once  // decision/image.hpp: the bytes of planes, as a decision reads them, and what their
              // codes mean.

#include <algorithm>
#include <bit>
#include <gantry/decision.hpp>
#include <optional>
#include <vector>

#include "shape/reshape/planes.hpp"

namespace gantry::decision {

/// Codes or keys that something may have, both ends included.
struct CodeSpan {
  std::uint64_t lo = 0, hi = 0;
  [[nodiscard]] bool is_exact() const noexcept { return lo == hi; }
};

/// What codes of a type mean. A key is a code in which -0 is +0, and 0 every NaN: equal values have
/// equal keys, and NaN is below all.
class Values {
 public:
  explicit Values(shape::Element element) noexcept;

  [[nodiscard]] unsigned bits() const noexcept { return bits_; }
  /// Codes of which the highest `known` bits are those of `code`, whose others are 0.
  [[nodiscard]] CodeSpan span_of(std::uint64_t code, unsigned known) const noexcept {
    return {code, known >= bits_ ? code : code | (~std::uint64_t{0} >> (64 - bits_ + known))};
  }
  [[nodiscard]] CodeSpan keys_of(CodeSpan codes) const noexcept;
  [[nodiscard]] bool may_be_nan(CodeSpan codes) const noexcept {
    return codes.lo < least_ || codes.hi > largest_;
  }
  /// Without NaNs; lo > hi if nothing is left.
  [[nodiscard]] CodeSpan numbers_of(CodeSpan codes) const noexcept {
    return {codes.lo < least_ ? least_ : codes.lo, codes.hi > largest_ ? largest_ : codes.hi};
  }
  /// Exact. NaN of a NaN.
  [[nodiscard]] double value_of(std::uint64_t code) const noexcept {
    if (element_ != shape::Element::f32) return slow_value_of(code);
    const auto bits = static_cast<std::uint32_t>(code);
    return std::bit_cast<float>(bits ^ (((bits >> 31) - 1) | 0x80000000u));
  }
  /// The least key whose value is above `limit`; above all keys if there is none.
  [[nodiscard]] std::uint64_t key_above(double limit) const noexcept;

 private:
  [[nodiscard]] double slow_value_of(std::uint64_t code) const noexcept;

  shape::Element element_;
  unsigned bits_;
  unsigned fraction_ = 0;                          // bits of a float's fraction; 0: no float
  std::uint64_t least_, largest_, plus_zero_ = 0;  // codes of the extreme numbers, of +0 of floats
};

/// Bytes that may still be on their way, from the front on.
class PlaneSource {
 public:
  PlaneSource() = default;
  PlaneSource(const PlaneSource&) = delete;
  PlaneSource& operator=(const PlaneSource&) = delete;
  virtual ~PlaneSource() = default;
  /// Waits until bytes [0, end) are there and returns where they are, with at least so many.
  /// Bytes that never come are no error: fewer are returned.
  [[nodiscard]] virtual Result<ConstByteSpan> through(Bytes end) = 0;
};

/// What a decision reads, counted. A cell is what one byte of a plane has digits of: 8 elements
/// that follow one another if planes are of bits, else one. Its bytes in memory of a peer may
/// change at any time: each is looked at once, or anything may be read a second time.
class Image {
 public:
  Image(const shape::PlaneLayout& layout, PlaneSource& source, Bytes budget) noexcept;

  [[nodiscard]] const shape::PlaneLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Values& values() const noexcept { return values_; }
  [[nodiscard]] unsigned per_cell() const noexcept { return layout_.in_bits() ? 8 : 1; }
  /// Binary digits that a plane has of each element.
  [[nodiscard]] unsigned digits() const noexcept { return layout_.in_bits() ? 1 : 8; }
  [[nodiscard]] std::size_t cells() const noexcept {
    return (layout_.count() + per_cell() - 1) / per_cell();
  }
  [[nodiscard]] std::size_t elements_of(std::size_t cell) const noexcept {
    return std::min<std::size_t>(per_cell(), layout_.count() - cell * per_cell());
  }

  /// True if nothing has to be waited for.
  [[nodiscard]] Result<bool> has_all();
  /// Makes planes [from, to) of a cell readable, and counts them as read. False: the budget is
  /// spent, or they are not there.
  [[nodiscard]] Result<bool> open(std::size_t cell, unsigned from, unsigned to) {
    return open(cell, 1, from, to);
  }
  /// The same for cells that follow one another, all or none.
  [[nodiscard]] Result<bool> open(std::size_t cell, std::size_t cells, unsigned from, unsigned to);
  /// The digits that one plane of an opened cell has, of element i in bits i * digits() and up.
  [[nodiscard]] unsigned digits_at(std::size_t cell, unsigned plane) const noexcept {
    return std::to_integer<unsigned>(there_[place(cell, plane)]);
  }
  /// The bytes of one plane of opened cells that follow one another in a block.
  [[nodiscard]] const std::byte* at(std::size_t cell, unsigned plane) const noexcept {
    return there_.data() + place(cell, plane);
  }
  /// Has them brought nearer, if they are there, but does not read them.
  void fetch(std::size_t cell, std::size_t cells, unsigned plane) const noexcept;
  /// Adds planes [from, to) of an opened cell to the codes of its elements.
  void add(std::size_t cell, unsigned from, unsigned to, std::uint64_t* codes) const noexcept;

  /// The bounds of the group of an element; nothing without them, if they are not there or the
  /// budget is spent. Counts them as read the first time.
  [[nodiscard]] Result<std::optional<CodeSpan>> bounds_of(std::size_t element);

  /// Makes all bounds readable and counts them as read. False as open().
  [[nodiscard]] Result<bool> open_bounds();
  /// Of a block, after open_bounds(); codes_at() reads those of one group.
  [[nodiscard]] const std::byte* bounds_at(std::size_t block) const noexcept {
    return there_.data() + block * unit_;
  }
  [[nodiscard]] CodeSpan codes_at(const std::byte* bounds) const noexcept;

  [[nodiscard]] Bytes bytes_read() const noexcept { return read_; }
  [[nodiscard]] Bytes budget_left() const noexcept { return budget_ - read_; }

 private:
  /// What lies where in a block: PlaneLayout divides to find that, and it is asked for each cell.
  struct Inside {
    Bytes first_plane, plane_bytes;
  };
  [[nodiscard]] Inside inside(std::size_t block) const noexcept {
    return {layout_.offset_of(block, 0) - layout_.offset_of(block), layout_.plane_bytes(block)};
  }
  [[nodiscard]] Bytes place(std::size_t cell, unsigned plane) const noexcept {
    const std::size_t block = last_block_ == 0 ? 0 : cell / cells_of_block_;
    const Inside& inside = block == last_block_ ? inside_last_ : inside_;
    return block * unit_ + inside.first_plane + plane * inside.plane_bytes +
           (cell - block * cells_of_block_);
  }
  [[nodiscard]] Result<bool> take(Bytes end, Bytes bytes);
  void add_bits(std::size_t cell, unsigned from, unsigned to, std::uint64_t* codes) const noexcept;

  shape::PlaneLayout layout_;
  Values values_;
  PlaneSource& source_;
  Bytes budget_, read_ = 0;
  std::size_t last_block_, cells_of_block_;
  Bytes unit_;
  Inside inside_, inside_last_;
  ConstByteSpan there_;
  struct Group {
    bool is_known = false;
    CodeSpan codes;
  };
  bool has_bounds_ = false;    // all are open
  std::vector<Group> groups_;  // made with the first bounds, unless all are open
};

/// "bounds that contradict the values".
[[nodiscard]] Error contradiction(std::size_t element);

}  // namespace gantry::decision
