#include "decision/elements.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry::decision {

Elements::Elements(Image& image, BoundsUse use)
    : image_(image),
      use_(use),
      digits_(image.digits()),
      codes_(image.layout().count()),
      depth_(image.cells()),
      last_round_(image.cells()) {}

Result<void> Elements::read_bounds(ElementRange range) {
  if (use_ != BoundsUse::trusted || image_.layout().group() == 0) return {};
  if (trusted_.empty()) trusted_.resize(count(), {0, ~std::uint64_t{0}});
  for (std::size_t element = range.first; element < range.end(); ++element) {
    GANTRY_ASSIGN(const std::optional<CodeSpan> group, image_.bounds_of(element));
    if (!group) continue;
    if (group->lo > group->hi) return tl::unexpected(contradiction(element));
    trusted_[element] = *group;
  }
  return {};
}

Result<bool> Elements::refine(std::size_t element) {
  const std::size_t cell = element / image_.per_cell();
  if (last_round_[cell] == round_) return true;
  const unsigned depth = depth_[cell];
  if (depth == image_.layout().planes()) return false;
  GANTRY_ASSIGN(const bool is_open, image_.open(cell, depth, depth + 1));
  if (!is_open) return false;
  image_.add(cell, depth, depth + 1, &codes_[cell * image_.per_cell()]);
  depth_[cell] = static_cast<std::uint8_t>(depth + 1);
  last_round_[cell] = round_;
  GANTRY_TRY(check(cell));
  return true;
}

Result<void> Elements::check(std::size_t cell) {
  const bool is_known = depth_[cell] == image_.layout().planes();
  if (image_.layout().group() == 0 || (trusted_.empty() && !is_known)) return {};
  const std::size_t first = cell * image_.per_cell();
  for (std::size_t element = first; element < first + image_.elements_of(cell); ++element) {
    const CodeSpan span = values().span_of(codes_[element], depth_[cell] * digits_);
    std::optional<CodeSpan> group;
    if (!trusted_.empty()) {
      group = trusted_[element];
    } else {
      GANTRY_ASSIGN(group, image_.bounds_of(element));
    }
    if (group && (span.hi < group->lo || span.lo > group->hi))
      return tl::unexpected(contradiction(element));
  }
  return {};
}

}  // namespace gantry::decision
