#include "shape/reshape/planes.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/result.hpp"

namespace gantry::shape {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 56;  // 64 bits count the bytes of the image

/// Bytes [from, end) of a block that are wanted, and where the first of them goes.
struct Wanted {
  std::byte* to;
  Bytes from, end;

  /// Copies what is wanted of `bytes` that belong at `at` in the block.
  void put(Bytes at, const std::byte* source, Bytes bytes) const noexcept {
    const Bytes first = std::max(at, from);
    const Bytes last = std::min(at + bytes, end);
    if (first < last) std::memcpy(to + (first - from), source + (first - at), last - first);
  }
};

/// One block of an image, in which offsets begin at 0.
struct Block {
  const PlaneLayout& layout;
  PlaneCoding coding;
  std::size_t elements;
  Bytes plane_bytes, bounds_bytes;
  unsigned planes, per_byte, rows_bits;  // per_byte: elements of a plane's byte; rows_bits: planes
                                         // of a row of bytes
  Block(const PlaneLayout& all, std::size_t index) noexcept
      : layout(all),
        coding(coding_of(all.element())),
        elements(all.elements_of(index)),
        plane_bytes(all.plane_bytes(index)),
        bounds_bytes(all.offset_of(index, 0) - all.offset_of(index)),
        planes(all.planes()),
        per_byte(all.in_bits() ? 8 : 1),
        rows_bits(all.in_bits() ? 8 : 1) {}
};

void make_bounds(const Block& block, const Wanted& wanted, const std::byte* dense) noexcept {
  const std::size_t group = block.layout.group();
  const Bytes bytes = block.coding.element_bytes;
  const std::size_t end = (std::min(wanted.end, block.bounds_bytes) + 2 * bytes - 1) / (2 * bytes);
  for (std::size_t g = wanted.from / (2 * bytes); g < end; ++g) {
    const std::size_t first = g * group;
    const CodeRange range =
        code_range(block.coding, dense + first * bytes, std::min(group, block.elements - first));
    std::byte codes[16];
    std::memcpy(codes, &range.least, bytes);
    std::memcpy(codes + bytes, &range.largest, bytes);
    wanted.put(g * 2 * bytes, codes, 2 * bytes);
  }
}

/// Planes [first, last) of elements [from, from + count), at most a tile.
void make_tile(const Block& block, const Wanted& wanted, unsigned first, unsigned last,
               std::size_t from, std::size_t count, const std::byte* dense) noexcept {
  PlaneTile tile, bits;
  const unsigned row_first = first / block.rows_bits;
  const unsigned row_last = (last - 1) / block.rows_bits + 1;
  split_bytes(block.coding, tile.rows, row_first, row_last,
              dense + from * block.coding.element_bytes, count);
  for (unsigned row = row_first; row < row_last && block.layout.in_bits(); ++row) {
    std::byte* const bytes = tile.rows + (row - row_first) * kPlaneTile;
    std::memset(bytes + count, 0, (8 - count % 8) % 8);
    split_bits(bits.rows + (row - row_first) * kPlaneTile, bytes, count);
  }
  const std::byte* const rows = block.layout.in_bits() ? bits.rows : tile.rows;
  const Bytes apart = kPlaneTile / block.per_byte;
  for (unsigned plane = first; plane < last; ++plane)
    wanted.put(block.bounds_bytes + plane * block.plane_bytes + from / block.per_byte,
               rows + (plane - row_first * block.rows_bits) * apart,
               (count + block.per_byte - 1) / block.per_byte);
}

/// Planes [first, last), bytes [from, end) of each.
void make_run(const Block& block, const Wanted& wanted, unsigned first, unsigned last, Bytes from,
              Bytes end, const std::byte* dense) noexcept {
  const std::size_t stop = std::min(end * block.per_byte, block.elements);
  for (std::size_t at = from * block.per_byte; at < stop; at += kPlaneTile)
    make_tile(block, wanted, first, last, at, std::min(kPlaneTile, stop - at), dense);
}

// Of the first and the last plane perhaps only a part is wanted; those between are made together,
// so that the elements are read once.
void make_block(const Block& block, const Wanted& wanted, const std::byte* dense) noexcept {
  if (wanted.from < block.bounds_bytes) make_bounds(block, wanted, dense);
  if (wanted.end <= block.bounds_bytes) return;
  const Bytes from = std::max(wanted.from, block.bounds_bytes) - block.bounds_bytes;
  const Bytes end = wanted.end - block.bounds_bytes;
  auto first = static_cast<unsigned>(from / block.plane_bytes);
  const auto last = static_cast<unsigned>(end / block.plane_bytes);
  const Bytes head = from % block.plane_bytes;
  const Bytes tail = end % block.plane_bytes;
  if (first == last) return make_run(block, wanted, first, first + 1, head, tail, dense);
  if (head != 0) make_run(block, wanted, first, first + 1, head, block.plane_bytes, dense), ++first;
  if (first < last) make_run(block, wanted, first, last, 0, block.plane_bytes, dense);
  if (tail != 0) make_run(block, wanted, last, last + 1, 0, tail, dense);
}

/// Elements [from, from + count), at most a tile, to `to`. `from` begins a byte of a plane.
void join_tile(const Block& block, std::byte* to, std::size_t from, std::size_t count,
               const std::byte* image) noexcept {
  const std::byte* const planes = image + block.bounds_bytes + from / block.per_byte;
  const std::byte* rows[8];
  PlaneTile tile;
  for (unsigned row = 0; row < block.coding.element_bytes; ++row) {
    if (!block.layout.in_bits()) {
      rows[row] = planes + row * block.plane_bytes;
      continue;
    }
    const std::byte* of_bits[8];
    for (unsigned bit = 0; bit < 8; ++bit)
      of_bits[bit] = planes + (row * 8 + bit) * block.plane_bytes;
    join_bits(tile.rows + row * kPlaneTile, of_bits, count);
    rows[row] = tile.rows + row * kPlaneTile;
  }
  join_bytes(block.coding, to, rows, count);
}

void join_block(const Block& block, const Wanted& wanted, const std::byte* image) noexcept {
  const unsigned bytes = block.coding.element_bytes;
  const std::size_t stop = (wanted.end + bytes - 1) / bytes;
  const std::size_t first = wanted.from / bytes / block.per_byte * block.per_byte;
  for (std::size_t at = first; at < stop; at += kPlaneTile) {
    const std::size_t count = std::min(kPlaneTile, stop - at);
    const Bytes from = at * bytes;
    if (from >= wanted.from && from + count * bytes <= wanted.end) {
      join_tile(block, wanted.to + (from - wanted.from), at, count, image);
    } else {
      PlaneTile tile;
      join_tile(block, tile.rows, at, count, image);
      wanted.put(from, tile.rows, count * bytes);
    }
  }
}

/// Calls `each(block, its part of the range)` for every block that [from, from + bytes) meets, the
/// blocks being `unit` bytes apart.
template <class Each>
void for_blocks(std::byte* to, Bytes from, Bytes bytes, Bytes unit, Each each) noexcept {
  for (Bytes at = from; at < from + bytes;) {
    const std::size_t index = at / unit;
    const Bytes end = std::min(from + bytes, (index + 1) * unit);
    each(index, Wanted{to + (at - from), at - index * unit, end - index * unit});
    at = end;
  }
}

}  // namespace

Result<PlaneLayout> PlaneLayout::make(Element element, std::int64_t count, const Planes& planes) {
  if (is_packed(element))
    return fail(Code::invalid_argument,
                fmt::format("planes of {}: two numbers share a byte", facts_of(element).name),
                "convert to another type first");
  if (planes.unit == Planes::Unit::none)
    return fail(Code::invalid_argument, "planes: neither of bytes nor of bits", "set Planes::unit");
  if (planes.block < 0 || planes.block % 8 != 0)
    return fail(Code::invalid_argument,
                fmt::format("planes: blocks of {} elements: no multiple of 8", planes.block));
  if (count < 1 || count > kMost)
    return fail(Code::invalid_argument,
                fmt::format("planes: {} elements: not from 1 to {}", count, kMost));
  PlaneLayout layout;
  layout.element_ = element;
  layout.element_bytes_ = facts_of(element).bits / 8;
  layout.in_bits_ = planes.unit == Planes::Unit::bits;
  layout.count_ = static_cast<std::size_t>(count);
  layout.block_ =
      static_cast<std::size_t>(planes.block == 0 ? count : std::min(planes.block, count));
  layout.group_ = planes.bounds_group;
  return layout;
}

Bytes PlaneLayout::bytes() const noexcept {
  return (blocks() - 1) * unit() + block_bytes(elements_of(blocks() - 1));
}

ByteRange PlaneLayout::elements_in(std::size_t block, Bytes from, Bytes end) const noexcept {
  const std::size_t count = elements_of(block);
  const Bytes bounds = bounds_bytes(count), plane = plane_bytes(block);
  std::size_t first = 0, last = count;  // those between them
  if (bounds != 0 && end <= bounds) {
    const Bytes each = Bytes{2} * element_bytes_;
    first = from / each * group_;
    last = (end + each - 1) / each * group_;
  } else if (from >= bounds && (from - bounds) / plane == (end - 1 - bounds) / plane) {
    const std::size_t per_byte = in_bits_ ? 8 : 1;
    first = (from - bounds) % plane * per_byte;
    last = ((end - 1 - bounds) % plane + 1) * per_byte;
  }
  return {first, std::min(last, count) - first};
}

ByteRange PlaneLayout::dense_of(ByteRange image) const noexcept {
  if (image.bytes == 0) return {};
  const std::size_t first = image.from / unit();
  const std::size_t last = (image.end() - 1) / unit();
  const Bytes from = image.from - first * unit(), end = image.end() - last * unit();
  const ByteRange head = elements_in(first, from, first == last ? end : unit());
  const ByteRange tail = first == last ? head : elements_in(last, 0, end);
  const Bytes begin = first * dense_unit() + head.from * element_bytes_;
  return {begin, last * dense_unit() + tail.end() * element_bytes_ - begin};
}

ByteRange PlaneLayout::image_of(ByteRange dense) const noexcept {
  if (dense.bytes == 0) return {};
  const std::size_t first = dense.from / dense_unit();
  const std::size_t last = (dense.end() - 1) / dense_unit();
  const Bytes per_byte = in_bits_ ? 8 : 1;
  const Bytes at = (dense.from - first * dense_unit()) / element_bytes_ / per_byte;
  const Bytes to = (dense.end() - 1 - last * dense_unit()) / element_bytes_ / per_byte;
  const Bytes from = offset_of(first, 0) + at;
  return {from, offset_of(last, planes() - 1) + to + 1 - from};
}

Bytes PlaneLayout::image_from(Bytes dense_prefix) const noexcept {
  if (dense_prefix >= dense_bytes()) return bytes();
  const std::size_t block = dense_prefix / dense_unit();
  const std::size_t there = (dense_prefix - block * dense_unit()) / element_bytes_;
  if (group_ != 0) return offset_of(block) + there / group_ * 2 * element_bytes_;
  return offset_of(block) + (in_bits_ ? there / 8 : there);
}

Bytes PlaneLayout::dense_from(Bytes image_prefix) const noexcept {
  if (image_prefix >= bytes()) return dense_bytes();
  const std::size_t block = image_prefix / unit();
  const Bytes last_plane = offset_of(block, planes() - 1);
  const Bytes there = image_prefix > last_plane ? image_prefix - last_plane : 0;
  const std::size_t elements = std::min(there * (in_bits_ ? 8 : 1), elements_of(block));
  return block * dense_unit() + elements * element_bytes_;
}

void make_planes(const PlaneLayout& layout, std::byte* to, Bytes from, Bytes bytes,
                 const std::byte* dense) noexcept {
  for_blocks(to, from, bytes, layout.unit(), [&](std::size_t index, const Wanted& wanted) {
    make_block(Block(layout, index), wanted, dense + index * layout.dense_unit());
  });
}

void join_planes(const PlaneLayout& layout, std::byte* to, Bytes from, Bytes bytes,
                 const std::byte* image) noexcept {
  for_blocks(to, from, bytes, layout.dense_unit(), [&](std::size_t index, const Wanted& wanted) {
    join_block(Block(layout, index), wanted, image + layout.offset_of(index));
  });
}

std::uint64_t code_of(Element element, std::uint64_t bits) noexcept {
  const PlaneCoding coding = coding_of(element);
  const std::uint64_t sign = std::uint64_t{1} << (coding.element_bytes * 8 - 1);
  if (coding.is_float && (bits & sign) != 0) return ~bits & (sign | (sign - 1));
  return coding.is_signed ? bits ^ sign : bits;
}

std::uint64_t bits_of(Element element, std::uint64_t code) noexcept {
  const PlaneCoding coding = coding_of(element);
  const std::uint64_t sign = std::uint64_t{1} << (coding.element_bytes * 8 - 1);
  if (coding.is_float && (code & sign) == 0) return ~code & (sign | (sign - 1));
  return coding.is_signed ? code ^ sign : code;
}

}  // namespace gantry::shape
