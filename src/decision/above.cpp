#include "base/result.hpp"
#include "decision/decisions.hpp"
#include "decision/elements.hpp"

namespace gantry::decision {
namespace {

enum class Verdict : std::uint8_t { below, open, above };

/// Which elements of a region are above a limit, or in which regions any is.
class Above {
 public:
  Above(Image& image, const detail::DecisionParts& parts, BoundsUse use)
      : image_(image),
        elements_(image, use),
        regions_(parts.ranges),
        any_(parts.kind == detail::DecisionParts::Kind::any_of),
        least_(image.values().key_above(parts.limit)) {
    if (!parts.has_ranges) regions_ = {{0, image.layout().count()}};
  }

  [[nodiscard]] Result<Decided> decide() {
    for (const ElementRange& region : regions_) GANTRY_TRY(elements_.read_bounds(region));
    GANTRY_ASSIGN(const bool has_all, image_.has_all());
    for (const ElementRange& region : regions_) {
      if (any_ && has_all) GANTRY_TRY(find(region));
    }
    for (;;) {
      elements_.begin_round();
      bool is_open = false, has_read = false;
      for (const ElementRange& region : regions_) {
        if (any_ && verdict_of(region) != Verdict::open) continue;
        GANTRY_TRY(refine(region, is_open, has_read));
      }
      if (!is_open) return answer(true);
      if (!has_read) return answer(false);
    }
  }

 private:
  [[nodiscard]] Verdict verdict_of(std::size_t element) const noexcept {
    const CodeSpan keys = elements_.keys_of(element);
    if (keys.lo >= least_) return Verdict::above;
    return keys.hi < least_ ? Verdict::below : Verdict::open;
  }
  [[nodiscard]] Verdict verdict_of(const ElementRange& region) const noexcept {
    Verdict verdict = Verdict::below;
    for (std::size_t i = region.first; i < region.end() && verdict != Verdict::above; ++i)
      verdict = std::max(verdict, verdict_of(i));
    return verdict;
  }
  [[nodiscard]] bool guess(std::size_t element) const noexcept {
    const CodeSpan keys = elements_.keys_of(element);
    return keys.lo + (keys.hi - keys.lo) / 2 >= least_;
  }

  // Of values that are all there one after the other is read to the digit that decides, until one
  // is above; the rest of the region is not read. While they land digits are waited for, and all
  // are read to the same.
  [[nodiscard]] Result<void> find(const ElementRange& region) {
    for (std::size_t i = region.first; i < region.end(); ++i) {
      if (verdict_of(i) == Verdict::above) return {};
    }
    for (std::size_t i = region.first; i < region.end(); ++i) {
      while (verdict_of(i) == Verdict::open) {
        elements_.begin_round();
        GANTRY_ASSIGN(const bool is_read, elements_.refine(i));
        if (!is_read) return {};
      }
      if (verdict_of(i) == Verdict::above) return {};
    }
    return {};
  }

  [[nodiscard]] Result<void> refine(const ElementRange& region, bool& is_open, bool& has_read) {
    for (std::size_t i = region.first; i < region.end(); ++i) {
      if (verdict_of(i) != Verdict::open) continue;
      GANTRY_ASSIGN(const bool is_read, elements_.refine(i));
      is_open = true;
      has_read = has_read || is_read;
      if (any_ && verdict_of(i) == Verdict::above) return {};  // one is enough
    }
    return {};
  }

  [[nodiscard]] Decided answer(bool is_proven) const {
    Decided decided{{}, is_proven, 0};
    for (std::size_t r = 0; r < regions_.size(); ++r) {
      for (std::size_t i = regions_[r].first; i < regions_[r].end(); ++i) {
        if (!guess(i)) continue;
        decided.indices.push_back(any_ ? r : i);
        if (any_) break;
      }
    }
    return decided;
  }

  Image& image_;
  Elements elements_;
  std::vector<ElementRange> regions_;
  bool any_;
  std::uint64_t least_;  // the key from which on values are above
};

}  // namespace

Result<Decided> decide_above(Image& image, const detail::DecisionParts& parts, BoundsUse use) {
  return Above(image, parts, use).decide();
}

}  // namespace gantry::decision
