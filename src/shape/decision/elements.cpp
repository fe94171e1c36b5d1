// The largest elements, and those above a limit: decided by what is known of each so far.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "shape/decision/decision.hpp"
#include "shape/decision/ranking.hpp"

namespace gantry::decision {
namespace {

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

// How often each byte is there. In four tables: a byte is often followed by the same one, whose
// count would have to be waited for.
std::array<std::size_t, 256> count_bytes(std::span<const std::byte> bytes) noexcept {
  std::array<std::array<std::size_t, 256>, 4> tables{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    ++tables[i % 4][std::to_integer<std::size_t>(bytes[i])];
  for (std::size_t byte = 0; byte < 256; ++byte)
    for (std::size_t table = 1; table < 4; ++table) tables[0][byte] += tables[table][byte];
  return tables[0];
}

// Where the bytes are that are `least` or more, ascending.
std::vector<std::size_t> places_of(std::span<const std::byte> bytes, unsigned least) {
  constexpr std::size_t kAtOnce = 64;  // the compiler makes vectors of their comparison
  std::vector<std::size_t> places;
  for (std::size_t first = 0; first < bytes.size(); first += kAtOnce) {
    const auto some = bytes.subspan(first, std::min(kAtOnce, bytes.size() - first));
    std::byte largest{};
    for (const std::byte each : some) largest = std::max(largest, each);
    if (std::to_integer<unsigned>(largest) < least) continue;
    for (std::size_t i = 0; i < some.size(); ++i)
      if (std::to_integer<unsigned>(some[i]) >= least) places.push_back(first + i);
  }
  return places;
}

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

Result<Decided> decide_above(Image& image, const detail::DecisionParts& parts, BoundsUse use) {
  return Above(image, parts, use).decide();
}

Result<Decided> decide_top(Image& image, const detail::DecisionParts& parts, BoundsUse use) {
  return Top(image, parts, use).decide();
}

}  // namespace gantry::decision
