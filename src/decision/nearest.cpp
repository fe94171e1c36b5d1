#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/result.hpp"
#include "decision/decisions.hpp"
#include "decision/near_rows.hpp"
#include "decision/ranking.hpp"

// Compiled without contraction: a distance is rounded as the header says. Rounding is monotone, so
// that sums of the terms' bounds, added in the same order, bound the rounded sum with no margin.
namespace gantry::decision {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kColumn = 8;    // elements of a row that are read together
constexpr unsigned kFirstDigits = 3;  // of a float's fraction, that are read before others

struct Interval {
  double lo, hi;
};

/// A row's distance, so far as it was read. Less is nearer; of inner products it is the negative.
struct Row {
  std::size_t columns = 0;  // read, to `planes`; the first of the row
  unsigned planes = 0;
  double lo = 0, hi = 0;  // of the columns that were read
};

class Nearest {
 public:
  Nearest(Image& image, const detail::DecisionParts& parts, BoundsUse use)
      : image_(image),
        parts_(parts),
        use_(use),
        width_(parts.query.size()),
        columns_((width_ + kColumn - 1) / kColumn),
        first_planes_(first_planes(image)),
        rows_(image.layout().count() / width_),
        ranking_(rows_.size(), parts.k) {}

  [[nodiscard]] Result<Decided> decide();

 private:
  using Item = Ranking::Item;

  /// Sign, exponent and a few digits; of whole numbers the upper half.
  [[nodiscard]] static unsigned first_planes(const Image& image) noexcept {
    const shape::ElementFacts& facts = shape::facts_of(image.layout().element());
    const unsigned digits =
        facts.is_float ? facts.bits - (facts.digits - 1) + kFirstDigits : facts.bits / 2;
    return (std::min(digits, facts.bits) + image.digits() - 1) / image.digits();
  }
  [[nodiscard]] bool is_exact(const Row& row) const noexcept {
    return row.columns == columns_ && row.planes == image_.layout().planes();
  }

  [[nodiscard]] Result<bool> read_column(std::size_t index);
  [[nodiscard]] Result<bool> read_rest(std::size_t index);
  [[nodiscard]] Result<bool> deepen(std::size_t index);
  [[nodiscard]] Result<bool> open(std::size_t index, std::size_t column, std::size_t end,
                                  unsigned from, unsigned to);
  [[nodiscard]] Result<void> add(std::size_t index, std::size_t column, Row& row);
  [[nodiscard]] Result<CodeSpan> clipped(std::size_t element, CodeSpan span, bool is_known);
  [[nodiscard]] Interval term(CodeSpan codes, double query) const noexcept;

  void look(Item& item) const noexcept;
  void look_at_all() noexcept {
    for (Item& item : ranking_.candidates()) look(item);
  }
  [[nodiscard]] Result<bool> next_columns();
  [[nodiscard]] Result<bool> complete_best();
  [[nodiscard]] Result<bool> next_planes();
  [[nodiscard]] bool is_spent(Bytes quarters) const noexcept;
  [[nodiscard]] Result<void> read_likely();

  Image& image_;
  const detail::DecisionParts& parts_;
  BoundsUse use_;
  std::size_t width_, columns_;
  unsigned first_planes_;
  std::vector<Row> rows_;
  Ranking ranking_;
};

std::uint64_t key_of(double distance) noexcept {
  if (std::isnan(distance)) return 0;
  const double positive_zero = distance == 0 ? 0.0 : distance;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &positive_zero, sizeof bits);
  return ~shape::code_of(shape::Element::f64, bits);
}

Interval Nearest::term(CodeSpan codes, double query) const noexcept {
  const Values& values = image_.values();
  const bool is_l2 = parts_.metric == Metric::l2;
  const auto of = [&](double x) { return is_l2 ? (x - query) * (x - query) : -(x * query); };
  const double lo = values.value_of(codes.lo);
  if (codes.is_exact()) return {of(lo), of(lo)};
  const double hi = values.value_of(codes.hi);
  if (values.may_be_nan(codes) || std::isinf(lo) || std::isinf(hi))
    return {is_l2 ? 0 : -kInfinity, kInfinity};
  const double at_lo = of(lo), at_hi = of(hi);
  const bool is_within = is_l2 && lo <= query && query <= hi;
  return {is_within ? 0 : std::min(at_lo, at_hi), std::max(at_lo, at_hi)};
}

// Bounds that are not trusted are looked at when all digits are known.
Result<CodeSpan> Nearest::clipped(std::size_t element, CodeSpan span, bool is_known) {
  if (image_.layout().group() == 0 || (use_ == BoundsUse::checked && !is_known)) return span;
  GANTRY_ASSIGN(const std::optional<CodeSpan> group, image_.bounds_of(element));
  if (!group) return span;
  const CodeSpan both = {std::max(span.lo, group->lo), std::min(span.hi, group->hi)};
  if (both.lo > both.hi) return tl::unexpected(contradiction(element));
  return both;
}

// Columns [column, end) of a row, all or none: what was there of some would count again later. A
// cell that the column before has a part of is open.
Result<bool> Nearest::open(std::size_t index, std::size_t column, std::size_t end, unsigned from,
                           unsigned to) {
  const std::size_t row = index * width_, per_cell = image_.per_cell();
  const std::size_t first =
      column == 0 ? row / per_cell : (row + column * kColumn - 1) / per_cell + 1;
  const std::size_t last = (row + std::min(end * kColumn, width_) - 1) / per_cell;
  return image_.open(first, last + 1 - first, from, to);
}

// Adds the terms of an opened column to the row's distance.
Result<void> Nearest::add(std::size_t index, std::size_t column, Row& row) {
  const std::size_t first = column * kColumn;
  const std::size_t end = std::min(first + kColumn, width_);
  const unsigned per_cell = image_.per_cell();
  const bool is_known = row.planes == image_.layout().planes();
  std::uint64_t codes[8];
  std::size_t cell = ~std::size_t{0};
  for (std::size_t j = first; j < end; ++j) {
    const std::size_t element = index * width_ + j;
    if (element / per_cell != cell) {
      cell = element / per_cell;
      std::fill_n(codes, per_cell, 0);
      image_.add(cell, 0, row.planes, codes);
    }
    const CodeSpan read =
        image_.values().span_of(codes[element % per_cell], row.planes * image_.digits());
    GANTRY_ASSIGN(const CodeSpan span, clipped(element, read, is_known));
    const Interval terms = term(span, static_cast<double>(parts_.query[j]));
    row.lo += terms.lo;
    row.hi += terms.hi;
  }
  return {};
}

Result<bool> Nearest::read_column(std::size_t index) {
  Row& row = rows_[index];
  GANTRY_ASSIGN(const bool is_open, open(index, row.columns, row.columns + 1, 0, first_planes_));
  if (!is_open) return false;
  row.planes = first_planes_;
  GANTRY_TRY(add(index, row.columns, row));
  ++row.columns;
  return true;
}

Result<bool> Nearest::read_rest(std::size_t index) {
  while (rows_[index].columns < columns_) {
    GANTRY_ASSIGN(const bool is_read, read_column(index));
    if (!is_read) return false;
  }
  return true;
}

// One more plane of a row all of whose columns were read.
Result<bool> Nearest::deepen(std::size_t index) {
  Row deeper{columns_, rows_[index].planes + 1, 0, 0};
  GANTRY_ASSIGN(const bool is_open, open(index, 0, columns_, deeper.planes - 1, deeper.planes));
  if (!is_open) return false;
  for (std::size_t column = 0; column < columns_; ++column) GANTRY_TRY(add(index, column, deeper));
  rows_[index] = deeper;
  return true;
}

void Nearest::look(Item& item) const noexcept {
  const Row& row = rows_[item.index];
  const bool is_whole = row.columns == columns_;
  const bool is_l2 = parts_.metric == Metric::l2;
  const double lo = is_whole || is_l2 ? row.lo : -kInfinity;
  // Infinities of both signs make NaN, which is behind all: then nothing is known.
  if (is_exact(row)) {
    item.keys = {key_of(lo), key_of(lo)};
  } else {
    const bool is_known = !std::isnan(lo);
    item.keys = {is_whole && std::isfinite(row.hi) ? key_of(row.hi) : 0,
                 is_known ? key_of(lo) : ~std::uint64_t{0}};
  }
  // Halves, as the sum of both may be beyond all numbers.
  double guess = row.lo / 2 + std::min(row.hi, std::numeric_limits<double>::max()) / 2;
  if (row.columns > 0) guess *= static_cast<double>(columns_) / static_cast<double>(row.columns);
  item.guess = row.columns == 0 ? 1 : key_of(guess);
}

// One more column of every row that may be among the nearest.
Result<bool> Nearest::next_columns() {
  bool has_read = false;
  for (const Item& item : ranking_.candidates()) {
    if (rows_[item.index].columns == columns_) continue;
    GANTRY_ASSIGN(const bool is_read, read_column(item.index));
    if (!is_read) break;
    has_read = true;
  }
  return has_read;
}

// The rows that look best so far, so that there is something to rule others out.
Result<bool> Nearest::complete_best() {
  bool has_read = false;
  for (const std::size_t index : ranking_.guess()) {
    if (rows_[index].columns == columns_) continue;
    GANTRY_ASSIGN(const bool is_read, read_rest(index));
    if (!is_read) break;
    has_read = true;
  }
  return has_read;
}

Result<bool> Nearest::next_planes() {
  bool has_read = false;
  for (const Item& item : ranking_.candidates()) {
    if (!item.unsettled || is_exact(rows_[item.index])) continue;
    const bool is_whole = rows_[item.index].columns == columns_;
    GANTRY_ASSIGN(const bool is_read, is_whole ? deepen(item.index) : read_rest(item.index));
    has_read = has_read || is_read;
  }
  return has_read;
}

// So many quarters of a budget that is less than all.
bool Nearest::is_spent(Bytes quarters) const noexcept {
  const Bytes budget = image_.bytes_read() + image_.budget_left();
  return budget < image_.layout().bytes() && image_.bytes_read() >= budget / 4 * quarters;
}

// With half of a budget gone a proof is unlikely: what is left is for the rows that look best,
// first to their last column, then the very best to their last digit.
Result<void> Nearest::read_likely() {
  for (const std::size_t index : ranking_.by_guess()) {
    if (is_spent(3)) break;
    GANTRY_TRY(read_rest(index));
  }
  look_at_all();
  for (const std::size_t index : ranking_.by_guess()) {
    GANTRY_TRY(read_rest(index));
    while (rows_[index].columns == columns_ && !is_exact(rows_[index])) {
      GANTRY_ASSIGN(const bool is_read, deepen(index));
      if (!is_read) return {};
    }
  }
  return {};
}

Result<Decided> Nearest::decide() {
  for (std::size_t column = 0; column < columns_ && !is_spent(2); ++column) {
    GANTRY_TRY(next_columns());
    look_at_all();
    GANTRY_TRY(complete_best());
    look_at_all();
    ranking_.drop();
  }
  if (is_spent(2)) GANTRY_TRY(read_likely());
  for (;;) {
    look_at_all();
    if (ranking_.settle()) return Decided{ranking_.ordered(), true, 0};
    GANTRY_ASSIGN(const bool has_read, next_planes());
    if (!has_read) return Decided{ranking_.guess(), false, 0};
  }
}

}  // namespace

Result<Decided> decide_nearest(Image& image, const detail::DecisionParts& parts, BoundsUse use) {
  if (use == BoundsUse::trusted && has_near_rows(image.layout(), parts)) {
    GANTRY_ASSIGN(const bool is_open, image.open_bounds());
    if (is_open) return decide_near_rows(image, parts);
  }
  return Nearest(image, parts, use).decide();
}

}  // namespace gantry::decision
