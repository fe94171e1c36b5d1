#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/result.hpp"
#include "shape/decision/decision.hpp"
#include "shape/decision/ranking.hpp"
#include "shape/decision/row_filter.hpp"
#include "shape/reshape/planes.hpp"

// Compiled without contraction: a distance is rounded as the header says. Rounding is monotone, so
// that sums of the terms' bounds, added in the same order, bound the rounded sum with no margin.
namespace gantry::decision {
namespace {

constexpr Bytes kChunkBytes = Bytes{32} << 10;  // of bounds that are looked at together
constexpr std::size_t kSampledChunks = 32;
constexpr std::size_t kLongestStep = 64;  // one chunk of so many at least is sampled
// Besides the first k one row of so many is read to rule out others, but no more than these.
constexpr std::size_t kRowsOfASeed = 1000, kMoreSeeds = 60;
constexpr unsigned kFirstBits = 12;  // sign, exponent and three digits of an f32
constexpr unsigned kMoreBits = 4;    // that are read at a time then

struct Found {
  double distance;
  std::size_t row;
};
bool is_nearer(const Found& a, const Found& b) noexcept {
  if (std::isnan(a.distance) != std::isnan(b.distance)) return std::isnan(b.distance);
  return a.distance != b.distance && !std::isnan(a.distance) ? a.distance < b.distance
                                                             : a.row < b.row;
}

struct Guess {
  float distance;
  std::size_t row;
  friend bool operator<(const Guess& a, const Guess& b) noexcept { return a.distance < b.distance; }
};

/// The `most` best of those that are put in: a heap, the worst in front.
template <class Item, class Before>
void put(std::vector<Item>& best, std::size_t most, const Item& item, Before before) {
  if (best.size() == most) {
    if (!before(item, best.front())) return;
    std::pop_heap(best.begin(), best.end(), before);
    best.pop_back();
  }
  best.push_back(item);
  std::push_heap(best.begin(), best.end(), before);
}

/// Elements of a row, and planes of them.
struct ReadPart {
  std::size_t first, elements;
  unsigned from, to;
};

/// Rows of one block that follow one another.
struct Chunk {
  std::size_t block, first_in_block, first, rows;
};

class NearRows {
 public:
  NearRows(Image& image, const detail::DecisionParts& parts)
      : image_(image),
        parts_(parts),
        width_(parts.query.size()),
        rows_of_block_(image.layout().block() / width_),
        first_planes_((kFirstBits + image.digits() - 1) / image.digits()),
        more_planes_((kMoreBits + image.digits() - 1) / image.digits()),
        filter_(parts.query, image.layout().group()),
        rows_of_chunk_(std::clamp<std::size_t>(kChunkBytes / filter_.row_bounds_bytes(), 16, 4096)),
        numbers_(rows_of_chunk_ + RowFilter::kSlack),
        joined_(image.layout().in_bits() ? width_ * 4 + width_ / 8 : 0) {}

  [[nodiscard]] Result<Decided> decide() {
    guess_seeds();
    bool is_read = true;
    for (std::size_t i = 0; i < seeds_.size() && is_read; ++i) {
      GANTRY_ASSIGN(is_read, look(seeds_[i].row));
    }
    std::sort(seeds_.begin(), seeds_.end(),
              [](const Guess& a, const Guess& b) { return a.row < b.row; });
    for (std::size_t i = 0; i < chunks() && is_read; ++i) {
      GANTRY_ASSIGN(is_read, look(chunk(i)));
    }
    std::swap(fetched_, awaited_);
    if (is_read) {
      GANTRY_ASSIGN(is_read, look_at_fetched());
    }
    return answer(is_read);
  }

 private:
  [[nodiscard]] std::size_t rows() const noexcept { return image_.layout().count() / width_; }
  [[nodiscard]] std::size_t chunks_of_block() const noexcept {
    return (rows_of_block_ + rows_of_chunk_ - 1) / rows_of_chunk_;
  }
  [[nodiscard]] std::size_t chunks() const noexcept {
    return image_.layout().blocks() * chunks_of_block();
  }
  /// Those of the last block may have no rows.
  [[nodiscard]] Chunk chunk(std::size_t i) const noexcept {
    const std::size_t block = i / chunks_of_block();
    const std::size_t rows = image_.layout().elements_of(block) / width_;
    const std::size_t first = std::min(i % chunks_of_block() * rows_of_chunk_, rows);
    return {block, first, block * rows_of_block_ + first, std::min(rows - first, rows_of_chunk_)};
  }
  [[nodiscard]] const std::byte* bounds_of(const Chunk& chunk) const noexcept {
    return image_.bounds_at(chunk.block) + chunk.first_in_block * filter_.row_bounds_bytes();
  }
  [[nodiscard]] const std::byte* bounds_of(std::size_t row) const noexcept {
    return image_.bounds_at(row / rows_of_block_) +
           row % rows_of_block_ * filter_.row_bounds_bytes();
  }

  void guess_seeds();
  [[nodiscard]] Result<bool> look(const Chunk& chunk);
  [[nodiscard]] Result<bool> look(std::size_t row);
  [[nodiscard]] Result<bool> look_at_fetched();
  [[nodiscard]] Result<bool> open(std::size_t row, const ReadPart& part) {
    const std::size_t cell = (row * width_ + part.first) / image_.per_cell();
    return image_.open(cell, part.elements / image_.per_cell(), part.from, part.to);
  }
  void fetch(std::size_t row) const noexcept;
  [[nodiscard]] RowFilter::Planes planes_of(std::size_t row, unsigned count) noexcept;
  [[nodiscard]] Result<void> check(std::size_t row, const RowFilter::Planes& planes,
                                   std::size_t known) const;
  void put_distance(std::size_t row, const RowFilter::Planes& planes);
  [[nodiscard]] Decided answer(bool is_proven);

  Image& image_;
  const detail::DecisionParts& parts_;
  std::size_t width_, rows_of_block_;
  unsigned first_planes_, more_planes_;
  RowFilter filter_;
  std::size_t rows_of_chunk_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::size_t> fetched_, awaited_;  // rows to look at, ascending
  std::vector<std::byte> joined_;  // a row's planes of bytes, if they are of bits; then zeros
  std::vector<Guess> seeds_;       // rows that are read first
  std::size_t next_seed_ = 0;
  std::vector<Found> best_;  // a heap, the farthest in front
};

// Of a sample of the rows those that are probably nearest, so that there is something to rule
// others out.
void NearRows::guess_seeds() {
  const std::size_t most = parts_.k + std::min(kMoreSeeds, rows() / kRowsOfASeed);
  const std::size_t step = std::clamp<std::size_t>(chunks() / kSampledChunks, 1, kLongestStep);
  std::vector<float> distances(rows_of_chunk_);
  for (std::size_t i = 0; i < chunks(); i += step) {
    const Chunk sampled = chunk(i);
    filter_.guess(distances.data(), bounds_of(sampled), static_cast<std::uint32_t>(sampled.rows));
    for (std::size_t row = 0; row < sampled.rows; ++row)
      put(seeds_, most, Guess{distances[row], sampled.first + row}, std::less<>());
  }
  std::sort(seeds_.begin(), seeds_.end());
}

// The rows of a chunk that may be near are only fetched: those of the chunk before are there by
// now. False: the budget is spent, or bytes are not there.
Result<bool> NearRows::look(const Chunk& chunk) {
  const std::byte* bounds = bounds_of(chunk);
  std::uint32_t* numbers = numbers_.data();
  std::size_t count = filter_.keep_roughly(numbers, bounds, static_cast<std::uint32_t>(chunk.rows));
  count = filter_.keep(numbers, count, bounds);
  std::swap(fetched_, awaited_);
  awaited_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    awaited_.push_back(chunk.first + numbers[i]);
    fetch(awaited_.back());
  }
  return look_at_fetched();
}

Result<bool> NearRows::look_at_fetched() {
  for (const std::size_t row : fetched_) {
    while (next_seed_ < seeds_.size() && seeds_[next_seed_].row < row) ++next_seed_;
    if (next_seed_ < seeds_.size() && seeds_[next_seed_].row == row) continue;
    GANTRY_ASSIGN(const bool is_read, look(row));
    if (!is_read) return false;
  }
  return true;
}

// Reads a row until it is too far away, or to the last digit: first a part of it, then all of it,
// then further digits.
Result<bool> NearRows::look(std::size_t row) {
  const std::size_t group = image_.layout().group();
  const std::size_t part = width_ / group / 2 * group;
  const unsigned all = image_.layout().planes();
  for (ReadPart next{0, part, 0, first_planes_};;) {
    if (next.elements > 0) {
      GANTRY_ASSIGN(const bool is_open, open(row, next));
      if (!is_open) return false;
      const RowFilter::Planes planes = planes_of(row, next.to);
      const std::size_t known = next.first + next.elements;
      const RowFilter::Verdict verdict = filter_.compare(planes, known, bounds_of(row));
      if (verdict == RowFilter::Verdict::drop) return true;
      if (verdict == RowFilter::Verdict::contradiction) GANTRY_TRY(check(row, planes, known));
      if (next.to == all) return put_distance(row, planes), true;
    }
    next = next.first + next.elements < width_
               ? ReadPart{part, width_ - part, 0, first_planes_}
               : ReadPart{0, width_, next.to, std::min(all, next.to + more_planes_)};
  }
}

void NearRows::fetch(std::size_t row) const noexcept {
  const std::size_t cells = width_ / image_.per_cell();
  for (unsigned plane = 0; plane < first_planes_; ++plane) image_.fetch(row * cells, cells, plane);
}

RowFilter::Planes NearRows::planes_of(std::size_t row, unsigned count) noexcept {
  const std::size_t cell = row * width_ / image_.per_cell();
  RowFilter::Planes planes;
  planes.unknown = count == image_.layout().planes() ? 0 : ~0u >> count * image_.digits();
  planes.count = (count * image_.digits() + 7) / 8;
  for (unsigned i = 0; i < planes.count; ++i) {
    if (!image_.layout().in_bits()) {
      planes.bytes[i] = image_.at(cell, i);
      continue;
    }
    const std::byte* bits[8];
    for (unsigned bit = 0; bit < 8; ++bit)
      bits[bit] = i * 8 + bit < count ? image_.at(cell, i * 8 + bit) : &joined_[width_ * 4];
    planes.bytes[i] = &joined_[width_ * i];
    shape::join_bits(&joined_[width_ * i], bits, width_);
  }
  return planes;
}

std::uint32_t code_of(const RowFilter::Planes& planes, std::size_t i) noexcept {
  std::uint32_t code = 0;
  for (unsigned plane = 0; plane < planes.count; ++plane)
    code |= std::to_integer<std::uint32_t>(planes.bytes[plane][i]) << (24 - plane * 8);
  return code;
}

Result<void> NearRows::check(std::size_t row, const RowFilter::Planes& planes,
                             std::size_t known) const {
  for (std::size_t i = 0; i < known; ++i) {
    const std::uint32_t code = code_of(planes, i);
    const CodeSpan group = image_.codes_at(bounds_of(row) + i / image_.layout().group() * 8);
    if (std::max<std::uint64_t>(code, group.lo) >
        std::min<std::uint64_t>(code | planes.unknown, group.hi))
      return tl::unexpected(contradiction(row * width_ + i));
  }
  return {};
}

void NearRows::put_distance(std::size_t row, const RowFilter::Planes& planes) {
  double sum = 0;
  for (std::size_t i = 0; i < width_; ++i) {
    const double apart =
        image_.values().value_of(code_of(planes, i)) - static_cast<double>(parts_.query[i]);
    sum += apart * apart;
  }
  put(best_, parts_.k, Found{sum, row}, is_nearer);
  if (best_.size() == parts_.k && !std::isnan(best_.front().distance))
    filter_.set_limit(best_.front().distance);
}

// If rows are missing, those come that probably are near.
Decided NearRows::answer(bool is_proven) {
  Decided decided{{}, is_proven, 0};
  std::sort(best_.begin(), best_.end(), is_nearer);
  for (const Found& found : best_) decided.indices.push_back(found.row);
  std::sort(seeds_.begin(), seeds_.end());
  if (decided.indices.size() == parts_.k) return decided;
  std::vector<bool> is_in(rows());
  for (const std::size_t row : decided.indices) is_in[row] = true;
  const auto add = [&](std::size_t row) {
    if (decided.indices.size() < parts_.k && !is_in[row]) decided.indices.push_back(row);
    is_in[row] = true;
  };
  for (const Guess& seed : seeds_) add(seed.row);
  for (std::size_t row = 0; row < rows(); ++row) add(row);
  return decided;
}

bool has_near_rows(const shape::PlaneLayout& layout, const detail::DecisionParts& parts) noexcept {
  const std::size_t width = parts.query.size();
  return parts.metric == Metric::l2 && layout.element() == shape::Element::f32 &&
         layout.group() != 0 && layout.group() % 8 == 0 && width % layout.group() == 0 &&
         (layout.blocks() == 1 || layout.block() % width == 0);
}

Result<Decided> decide_near_rows(Image& image, const detail::DecisionParts& parts) {
  return NearRows(image, parts).decide();
}

// ---- any rows

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

// Compiled without contraction: a distance is rounded as the header says.

}  // namespace gantry::decision
