#include "decision/near_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/result.hpp"
#include "decision/row_filter.hpp"
#include "engine/shape/plane_rows.hpp"

// Compiled without contraction: a distance is rounded as the header says.
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

}  // namespace

bool has_near_rows(const shape::PlaneLayout& layout, const detail::DecisionParts& parts) noexcept {
  const std::size_t width = parts.query.size();
  return parts.metric == Metric::l2 && layout.element() == shape::Element::f32 &&
         layout.group() != 0 && layout.group() % 8 == 0 && width % layout.group() == 0 &&
         (layout.blocks() == 1 || layout.block() % width == 0);
}

Result<Decided> decide_near_rows(Image& image, const detail::DecisionParts& parts) {
  return NearRows(image, parts).decide();
}

}  // namespace gantry::decision
