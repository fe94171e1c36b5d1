#pragma once  // decision/elements.hpp: what is known of each element so far.

#include "decision/image.hpp"

namespace gantry::decision {

/// Elements whose planes are read cell by cell, each from the highest digits on.
class Elements {
 public:
  Elements(Image& image, BoundsUse use);

  /// Reads the bounds of all groups that `range` meets, if they are to be trusted. Errors: those of
  /// the source.
  [[nodiscard]] Result<void> read_bounds(ElementRange range);
  /// Reads one more plane of the cell of an element, unless that was done in this round. False: the
  /// budget is spent, or it is not there, or all digits are known. Errors: `peer_misbehaved`, and
  /// those of the source.
  [[nodiscard]] Result<bool> refine(std::size_t element);
  /// Takes over the first planes of an element's cell, which were opened.
  void take(std::size_t element, unsigned planes) noexcept {
    const std::size_t cell = element / image_.per_cell();
    image_.add(cell, depth_[cell], planes, &codes_[cell * image_.per_cell()]);
    depth_[cell] = static_cast<std::uint8_t>(planes);
  }
  void begin_round() noexcept { ++round_; }

  /// Codes that the element may have.
  [[nodiscard]] CodeSpan codes_of(std::size_t element) const noexcept {
    const CodeSpan span =
        image_.values().span_of(codes_[element], depth_[element / image_.per_cell()] * digits_);
    if (trusted_.empty()) return span;
    const CodeSpan& group = trusted_[element];
    return {std::max(span.lo, group.lo), std::min(span.hi, group.hi)};
  }
  [[nodiscard]] CodeSpan keys_of(std::size_t element) const noexcept {
    return image_.values().keys_of(codes_of(element));
  }
  [[nodiscard]] std::size_t count() const noexcept { return codes_.size(); }
  [[nodiscard]] const Values& values() const noexcept { return image_.values(); }

 private:
  [[nodiscard]] Result<void> check(std::size_t cell);

  Image& image_;
  BoundsUse use_;
  unsigned digits_;
  std::uint8_t round_ = 0;
  std::vector<std::uint64_t> codes_;      // the digits that are known, the others 0
  std::vector<std::uint8_t> depth_;       // of each cell: planes that were read
  std::vector<std::uint8_t> last_round_;  // of each cell: in which it was read last
  std::vector<CodeSpan> trusted_;         // of each element: its group's; empty without
};

}  // namespace gantry::decision
