#include <algorithm>

#include "base/result.hpp"
#include "decision/decisions.hpp"
#include "decision/elements.hpp"
#include "decision/ranking.hpp"

namespace gantry::decision {
namespace {

/// The largest of single elements, or of groups of them.
class Top {
 public:
  Top(Image& image, const detail::DecisionParts& parts, BoundsUse use)
      : elements_(image, use),
        parts_(parts),
        ranking_(parts.has_ranges ? parts.ranges.size() : image.layout().count(), parts.k) {}

  [[nodiscard]] Result<Decided> decide() {
    for (const Ranking::Item& item : ranking_.candidates())
      GANTRY_TRY(elements_.read_bounds(range_of(item.index)));
    for (;;) {
      for (Ranking::Item& item : ranking_.candidates()) look(item);
      const bool is_proven = ranking_.settle();
      if (is_proven) return Decided{ranking_.guess(), true, 0};
      GANTRY_ASSIGN(const bool has_read, refine());
      if (!has_read) return Decided{ranking_.guess(), false, 0};
    }
  }

 private:
  [[nodiscard]] ElementRange range_of(std::size_t index) const noexcept {
    return parts_.has_ranges ? parts_.ranges[index] : ElementRange{index, 1};
  }

  void look(Ranking::Item& item) const noexcept {
    CodeSpan keys = {0, 0};
    std::uint64_t guess = 0;
    const ElementRange range = range_of(item.index);
    for (std::size_t element = range.first; element < range.end(); ++element) {
      const CodeSpan of_element = elements_.keys_of(element);
      keys = {std::max(keys.lo, of_element.lo), std::max(keys.hi, of_element.hi)};
      guess = std::max(guess, of_element.lo + (of_element.hi - of_element.lo) / 2);
    }
    item.keys = keys;
    item.guess = guess;
  }

  // The next plane of all elements that may change what is not certain.
  [[nodiscard]] Result<bool> refine() {
    elements_.begin_round();
    bool has_read = false;
    for (const Ranking::Item& item : ranking_.candidates()) {
      if (!item.unsettled || item.keys.is_exact()) continue;
      const ElementRange range = range_of(item.index);
      for (std::size_t element = range.first; element < range.end(); ++element) {
        if (elements_.keys_of(element).hi <= item.keys.lo) continue;
        GANTRY_ASSIGN(const bool is_read, elements_.refine(element));
        has_read = has_read || is_read;
      }
    }
    return has_read;
  }

  Elements elements_;
  const detail::DecisionParts& parts_;
  Ranking ranking_;
};

}  // namespace

Result<Decided> decide_top(Image& image, const detail::DecisionParts& parts, BoundsUse use) {
  return Top(image, parts, use).decide();
}

}  // namespace gantry::decision
