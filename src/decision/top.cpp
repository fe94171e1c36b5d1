#include <algorithm>

#include "base/result.hpp"
#include "decision/decisions.hpp"
#include "decision/elements.hpp"
#include "decision/first_bytes.hpp"
#include "decision/ranking.hpp"

namespace gantry::decision {
namespace {

constexpr std::size_t kFew = 64;  // more candidates than are wanted, without further ado

/// The largest of single elements, or of groups of them.
class Top {
 public:
  Top(Image& image, const detail::DecisionParts& parts, BoundsUse use)
      : image_(image), elements_(image, use), parts_(parts), ranking_(0, parts.k) {}

  [[nodiscard]] Result<Decided> decide() {
    GANTRY_TRY(choose_candidates());
    for (const Ranking::Item& item : ranking_.candidates())
      GANTRY_TRY(elements_.read_bounds(range_of(item.index)));
    for (;;) {
      for (Ranking::Item& item : ranking_.candidates()) look(item);
      if (ranking_.settle()) return Decided{ranking_.ordered(), true, 0};
      GANTRY_ASSIGN(const bool has_read, refine());
      if (!has_read) return Decided{ranking_.guess(), false, 0};
    }
  }

 private:
  [[nodiscard]] ElementRange range_of(std::size_t index) const noexcept {
    return parts_.has_ranges ? parts_.ranges[index] : ElementRange{index, 1};
  }

  [[nodiscard]] bool has_first_bytes() const noexcept {
    const shape::PlaneLayout& layout = image_.layout();
    return !parts_.has_ranges && !layout.in_bits() && layout.group() == 0 && layout.blocks() == 1 &&
           image_.budget_left() >= layout.count();
  }

  [[nodiscard]] Result<void> choose_candidates() {
    bool is_open = false;
    if (has_first_bytes()) {
      GANTRY_ASSIGN(is_open, image_.open(0, image_.cells(), 0, 1));
    }
    if (!is_open) {
      ranking_ = Ranking(parts_.has_ranges ? parts_.ranges.size() : elements_.count(), parts_.k);
      return {};
    }
    const std::span first(image_.at(0, 0), elements_.count());
    const Least least = least_of(count_bytes(first), parts_.k, 0, 1);
    std::vector<std::size_t> candidates = places_of(first, least.byte);
    for (const std::size_t element : candidates) elements_.take(element, 1);
    if (candidates.size() > parts_.k + kFew) GANTRY_TRY(narrow(candidates, least));
    // Fewer than k are left only if the bytes have changed since they were counted.
    ranking_ = candidates.size() < parts_.k ? Ranking(elements_.count(), parts_.k)
                                            : Ranking(candidates, parts_.k);
    return {};
  }

  /// The highest byte such that so many elements that surely are no NaN have no lower one, and
  /// whatever has a lower one is surely behind them; how many of them have a higher one.
  struct Least {
    unsigned byte = 0;
    std::size_t above = 0;
  };
  /// Of the bytes of one plane, where all bytes above it are those of `known`.
  [[nodiscard]] Least least_of(const std::array<std::size_t, 256>& counts, std::size_t wanted,
                               std::uint64_t known, unsigned planes) const noexcept {
    const Values& values = elements_.values();
    const auto span = [&](unsigned byte) {
      return values.span_of((known << 8 | byte) << (values.bits() - 8 * planes), 8 * planes);
    };
    std::size_t above = 0;
    for (unsigned byte = 255; byte > 0; --byte) {
      const std::size_t numbers = values.may_be_nan(span(byte)) ? 0 : counts[byte];
      const bool is_apart =  // -0 and +0 are equal
          values.keys_of(span(byte - 1)).hi < values.keys_of(span(byte)).lo;
      if (above + numbers >= wanted && is_apart) return {byte, above};
      above += numbers;
    }
    return {0, above};
  }

  /// Of those with the least byte only the ones whose second byte is as high as it has to be.
  [[nodiscard]] Result<void> narrow(std::vector<std::size_t>& candidates, const Least& least) {
    const unsigned bits = elements_.values().bits();
    if (bits == 8 || least.above >= parts_.k || image_.budget_left() < candidates.size()) return {};
    const auto is_open = [&](std::size_t element) {  // by our copy: the plane's may change
      return elements_.codes_of(element).lo >> (bits - 8) == least.byte;
    };
    std::vector<std::byte> second;
    for (const std::size_t element : candidates) {
      if (!is_open(element)) continue;
      GANTRY_ASSIGN(const bool is_read, image_.open(element, 1, 2));
      if (!is_read) return {};
      elements_.take(element, 2);  // at once: it stays read if a later one is missing
      second.push_back(static_cast<std::byte>(elements_.codes_of(element).lo >> (bits - 16)));
    }
    const unsigned byte = least_of(count_bytes(second), parts_.k - least.above, least.byte, 2).byte;
    auto read = second.begin();
    std::erase_if(candidates, [&](std::size_t element) {
      if (!is_open(element)) return false;
      return std::to_integer<unsigned>(*read++) < byte;
    });
    return {};
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

  Image& image_;
  Elements elements_;
  const detail::DecisionParts& parts_;
  Ranking ranking_;
};

}  // namespace

Result<Decided> decide_top(Image& image, const detail::DecisionParts& parts, BoundsUse use) {
  return Top(image, parts, use).decide();
}

}  // namespace gantry::decision
