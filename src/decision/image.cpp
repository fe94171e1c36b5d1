#include "decision/image.hpp"

#include <algorithm>
#include <cstring>

#include "base/result.hpp"
#include "engine/shape/plane_rows.hpp"

namespace gantry::decision {

Image::Image(const shape::PlaneLayout& layout, PlaneSource& source, Bytes budget) noexcept
    : layout_(layout),
      values_(layout.element()),
      source_(source),
      budget_(budget),
      last_block_(layout.blocks() - 1),
      cells_of_block_((layout.block() + per_cell() - 1) / per_cell()),
      unit_(layout.unit()),
      inside_(inside(0)),
      inside_last_(inside(last_block_)) {}

Result<bool> Image::take(Bytes end, Bytes bytes) {
  if (budget_left() < bytes) return false;
  if (end > there_.size()) {
    GANTRY_ASSIGN(there_, source_.through(end));
    if (end > there_.size()) return false;
  }
  read_ += bytes;
  return true;
}

Result<bool> Image::has_all() {
  GANTRY_ASSIGN(there_, source_.through(there_.size()));
  return there_.size() >= layout_.bytes();
}

Result<bool> Image::open(std::size_t cell, std::size_t cells, unsigned from, unsigned to) {
  return take(place(cell + cells - 1, to - 1) + 1, cells * (to - from));
}

void Image::fetch(std::size_t cell, std::size_t cells, unsigned plane) const noexcept {
  constexpr Bytes kLine = 64;
  const Bytes first = place(cell, plane);
  for (Bytes at = first; at < std::min(first + cells, there_.size()); at += kLine)
    __builtin_prefetch(there_.data() + at);
}

// Eight planes of bits at a time, the highest in the highest byte.
void Image::add_bits(std::size_t cell, unsigned from, unsigned to,
                     std::uint64_t* codes) const noexcept {
  const std::size_t elements = elements_of(cell);
  const unsigned bits = values_.bits();
  for (unsigned row = from / 8; row * 8 < to; ++row) {
    std::uint64_t found = 0;
    for (unsigned plane = std::max(from, row * 8); plane < std::min(to, row * 8 + 8); ++plane)
      found |= std::uint64_t{digits_at(cell, plane)} << (7 - plane % 8) * 8;
    found = shape::transpose_bits(found);
    for (std::size_t i = 0; i < elements; ++i)
      codes[i] |= (found >> i * 8 & 0xffu) << (bits - 8 - row * 8);
  }
}

void Image::add(std::size_t cell, unsigned from, unsigned to, std::uint64_t* codes) const noexcept {
  if (layout_.in_bits()) return add_bits(cell, from, to, codes);
  for (unsigned plane = from; plane < to; ++plane)
    codes[0] |= std::uint64_t{digits_at(cell, plane)} << (values_.bits() - 8 - plane * 8);
}

Result<bool> Image::open_bounds() {
  Bytes bytes = 0;
  for (std::size_t block = 0; block < layout_.blocks(); ++block)
    bytes += layout_.offset_of(block, 0) - layout_.offset_of(block);
  GANTRY_ASSIGN(has_bounds_, take(layout_.offset_of(layout_.blocks() - 1, 0), bytes));
  return has_bounds_;
}

CodeSpan Image::codes_at(const std::byte* bounds) const noexcept {
  const unsigned bytes = layout_.element_bytes();
  CodeSpan codes;
  std::memcpy(&codes.lo, bounds, bytes);
  std::memcpy(&codes.hi, bounds + bytes, bytes);
  return codes;
}

Result<std::optional<CodeSpan>> Image::bounds_of(std::size_t element) {
  if (layout_.group() == 0) return std::nullopt;
  const std::size_t block = element / layout_.block();
  const std::size_t in_block = (element - block * layout_.block()) / layout_.group();
  const Bytes bytes = layout_.element_bytes();
  const Bytes at = layout_.offset_of(block) + in_block * 2 * bytes;
  if (has_bounds_) return codes_at(there_.data() + at);
  if (groups_.empty()) groups_.resize(layout_.blocks() * layout_.groups_of(0));
  Group& group = groups_[block * layout_.groups_of(0) + in_block];
  if (group.is_known) return group.codes;
  GANTRY_ASSIGN(const bool is_there, take(at + 2 * bytes, 2 * bytes));
  if (!is_there) return std::nullopt;
  group = {true, codes_at(there_.data() + at)};
  return group.codes;
}

Error contradiction(std::size_t element) {
  return {Code::peer_misbehaved,
          fmt::format("planes: the bounds of its group contradict element {}", element),
          "whoever made the planes is wrong or lies: do not use them"};
}

}  // namespace gantry::decision
