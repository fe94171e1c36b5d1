#include "decision/image.hpp"

#include <algorithm>
#include <cstring>

#include "base/result.hpp"

namespace gantry::decision {

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

Result<bool> Image::open(std::size_t cell, unsigned from, unsigned to) {
  return take(place(cell, to - 1) + 1, to - from);
}

void Image::add(std::size_t cell, unsigned from, unsigned to, std::uint64_t* codes) const noexcept {
  const std::size_t elements = elements_of(cell);
  const unsigned bits = values_.bits();
  for (unsigned plane = from; plane < to; ++plane) {
    const std::uint64_t found = digits_at(cell, plane);
    if (!layout_.in_bits()) {
      codes[0] |= found << (bits - 8 - plane * 8);
      continue;
    }
    for (std::size_t i = 0; i < elements; ++i) codes[i] |= (found >> i & 1u) << (bits - 1 - plane);
  }
}

Result<std::optional<CodeSpan>> Image::bounds_of(std::size_t element) {
  if (layout_.group() == 0) return std::nullopt;
  const std::size_t block = element / layout_.block();
  const std::size_t in_block = (element - block * layout_.block()) / layout_.group();
  if (groups_.empty()) groups_.resize(layout_.blocks() * layout_.groups_of(0));
  Group& group = groups_[block * layout_.groups_of(0) + in_block];
  if (group.is_known) return group.codes;
  const unsigned bytes = layout_.element_bytes();
  const Bytes at = layout_.offset_of(block) + in_block * 2 * bytes;
  GANTRY_ASSIGN(const bool is_there, take(at + 2 * bytes, 2 * bytes));
  if (!is_there) return std::nullopt;
  std::memcpy(&group.codes.lo, there_.data() + at, bytes);
  std::memcpy(&group.codes.hi, there_.data() + at + bytes, bytes);
  group.is_known = true;
  return group.codes;
}

Error contradiction(std::size_t element) {
  return {Code::peer_misbehaved,
          fmt::format("planes: the bounds of its group contradict element {}", element),
          "whoever made the planes is wrong or lies: do not use them"};
}

}  // namespace gantry::decision
