#include "schedule/space/split.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry {
namespace {

Result<void> check_rows(const OverlapOperator& op) {
  if (op.split.empty()) return {};
  if (op.kind != OverlapKind::all_to_all_gemm)
    return fail(Code::invalid_argument, "rows are shared out by hand in all-to-all-gemm only");
  const std::size_t pairs = std::size_t{op.ranks} * op.ranks;
  if (op.split.size() != pairs)
    return fail(Code::invalid_argument,
                fmt::format("rows for {} pairs of ranks; there are {}", op.split.size(), pairs));
  std::int64_t sum = 0;
  for (const std::int64_t rows : op.split) {
    if (rows < 0 || rows > kMostRows - sum)
      return fail(Code::invalid_argument, fmt::format("{} rows from one rank to another", rows));
    sum += rows;
  }
  if (sum == op.m) return {};
  return fail(Code::invalid_argument, fmt::format("rows for {}; m is {}", sum, op.m));
}

/// Bounds that keep every product of two sizes within 64 bits.
Result<void> check_size(std::string_view name, std::int64_t size) {
  if (size >= 0 && size <= kMostRows) return {};
  return fail(Code::invalid_argument, fmt::format("{} is {}", name, size),
              fmt::format("0 to {}", kMostRows));
}

}  // namespace

Result<void> check_operator(const OverlapOperator& op) {
  if (op.ranks == 0 || op.ranks > kMostRanks)
    return fail(Code::invalid_argument, fmt::format("{} ranks", op.ranks),
                fmt::format("1 to {}", kMostRanks));
  GANTRY_TRY(check_size("m", op.m));
  GANTRY_TRY(check_size("n", op.n));
  GANTRY_TRY(check_size("k", op.k));
  // The largest tensor has at most (m + ranks * ranks) rows; its bytes fit.
  const std::int64_t rows = op.m + std::int64_t{op.ranks} * op.ranks;
  for (const std::int64_t cols : {op.n, op.k})
    if (cols > 0 && rows > kMostRows / cols)
      return fail(Code::too_large,
                  fmt::format("{} x {} x {}: a matrix of over 2^40 elements", op.m, op.n, op.k));
  if (op.n > 0 && op.k > kMostRows / op.n)
    return fail(Code::too_large, fmt::format("B of {} x {}: over 2^40 elements", op.k, op.n));
  if (name_of(op.type).empty())
    return fail(Code::invalid_argument, "a type of elements that no plan may have",
                "f64, f32, f16, bf16, i32 or i64");
  return check_rows(op);
}

Result<OperatorSplit> OperatorSplit::of(const OverlapOperator& op, const Schedule& schedule) {
  GANTRY_TRY(check_operator(op));
  if (schedule.chunks == 0 || schedule.chunks > kMostChunks)
    return fail(Code::invalid_argument, fmt::format("{} chunks", schedule.chunks),
                fmt::format("1 to {}", kMostChunks));
  if (std::size_t{op.ranks} * (op.ranks - 1) > kMostSteps)
    return fail(Code::too_large, fmt::format("{} ranks: over {} transfers", op.ranks, kMostSteps),
                "ask for fewer ranks");
  OperatorSplit split(op, schedule);
  split.find_blocks();
  split.cut(schedule);
  return split;
}

void OperatorSplit::find_blocks() {
  const unsigned ranks = op_.ranks;
  const bool has_work = op_.n > 0 && op_.k > 0;
  if (op_.kind != OverlapKind::all_to_all_gemm) {
    largest_block_ = (op_.m + ranks - 1) / ranks;
    moves_ = ranks > 1 && op_.m > 0 && has_work;
    return;
  }
  blocks_.resize(std::size_t{ranks} * ranks);
  rows_of_.resize(ranks);
  rows_at_.resize(ranks);
  for (unsigned from = 0; from < ranks; ++from)
    for (unsigned to = 0; to < ranks; ++to) {
      RowBlock& block = blocks_[std::size_t{from} * ranks + to];
      block.rows = op_.split.empty() ? share(share(op_.m, from, ranks).size, to, ranks).size
                                     : op_.split[std::size_t{from} * ranks + to];
      block.source = rows_of_[from];
      block.place = rows_at_[to];
      rows_of_[from] += block.rows;
      rows_at_[to] += block.rows;
      largest_block_ = std::max(largest_block_, block.rows);
      moves_ = moves_ || (has_work && from != to && block.rows > 0);
    }
}

Schedule OperatorSplit::canonical(Schedule schedule) const noexcept {
  if (!moves_) return {};
  const std::int64_t size =
      schedule.shape == ScheduleShape::rows ? largest_block_ : moved_columns();
  schedule.chunks = static_cast<unsigned>(std::min<std::int64_t>(schedule.chunks, size));
  const bool is_whole = schedule.chunks == 1;
  if (is_whole) schedule.shape = ScheduleShape::rows;
  // One product of all that comes in one step.
  if (schedule.pattern == SchedulePattern::at_once && is_whole &&
      schedule.grain == ScheduleGrain::per_step && schedule.start == ScheduleStart::even)
    schedule.pattern = SchedulePattern::serial;
  if (schedule.pattern == SchedulePattern::serial) return {.path = schedule.path};
  const bool is_ring = schedule.pattern == SchedulePattern::ring;
  if (is_whole && is_ring) schedule.grain = ScheduleGrain::per_piece;
  const bool by_step = schedule.grain == ScheduleGrain::per_step;
  if ((is_whole && !by_step) || (is_ring && by_step)) schedule.start = ScheduleStart::own_first;
  return op_.ranks == 2 ? canonical_of_two(schedule) : schedule;
}

// With one peer there is one piece a step, and one way around.
Schedule OperatorSplit::canonical_of_two(Schedule schedule) const noexcept {
  if (schedule.start != ScheduleStart::own_first || schedule.pattern != SchedulePattern::at_once)
    return schedule;
  schedule.grain = ScheduleGrain::per_piece;
  schedule.pattern = SchedulePattern::ring;
  return schedule;
}

RowBlock OperatorSplit::block(unsigned from, unsigned to) const noexcept {
  if (!blocks_.empty()) return blocks_[std::size_t{from} * op_.ranks + to];
  const SizeSpan rows = share(op_.m, comes_in() ? from : to, op_.ranks);
  return {rows.first, rows.first, rows.size};
}

std::int64_t OperatorSplit::rows_at(unsigned rank) const noexcept {
  return rows_at_.empty() ? op_.m : rows_at_[rank];
}

std::int64_t OperatorSplit::rows_of(unsigned rank) const noexcept {
  return rows_of_.empty() ? op_.m : rows_of_[rank];
}

SizeSpan OperatorSplit::columns_of(unsigned rank) const noexcept {
  if (op_.kind == OverlapKind::all_gather_gemm) return share(op_.n, rank, op_.ranks);
  return {0, op_.n};
}

SizeSpan OperatorSplit::depth_of(unsigned rank) const noexcept {
  return comes_in() ? SizeSpan{0, op_.k} : share(op_.k, rank, op_.ranks);
}

unsigned OperatorSplit::pieces(unsigned from, unsigned to) const noexcept {
  const std::int64_t rows = block(from, to).rows;
  if (rows == 0) return 0;
  const std::int64_t size = schedule_.shape == ScheduleShape::rows ? rows : moved_columns();
  return static_cast<unsigned>(std::min<std::int64_t>(schedule_.chunks, size));
}

PlanRect OperatorSplit::piece(unsigned from, unsigned to, unsigned index) const noexcept {
  const std::int64_t rows = block(from, to).rows;
  const std::int64_t columns = moved_columns();
  const unsigned count = pieces(from, to);
  if (schedule_.shape == ScheduleShape::rows) {
    const SizeSpan span = share(rows, index, count);
    return {span.first, 0, span.size, columns};
  }
  const SizeSpan span = share(columns, index, count);
  return {0, span.first, rows, span.size};
}

unsigned OperatorSplit::steps() const noexcept {
  const std::int64_t size =
      schedule_.shape == ScheduleShape::rows ? largest_block_ : moved_columns();
  return static_cast<unsigned>(std::min<std::int64_t>(schedule_.chunks, size));
}

bool OperatorSplit::is_staged() const noexcept {
  return schedule_.pattern == SchedulePattern::at_once && schedule_.shape == ScheduleShape::rows &&
         schedule_.grain == ScheduleGrain::per_step;
}

bool OperatorSplit::has_arrivals() const noexcept {
  return op_.ranks > 1 && (op_.kind != OverlapKind::all_gather_gemm || is_staged());
}

bool OperatorSplit::is_uneven() const noexcept {
  constexpr std::int64_t kSmall = 16;  // rows, of which some cuts leave some steps without
  if (!moves_) return false;
  const std::int64_t rows = op_.m / op_.ranks;
  return op_.n < kSmall || op_.k < kSmall || (blocks_.empty() && rows < kSmall) ||
         std::ranges::any_of(blocks_, [](const RowBlock& block) { return block.rows < kSmall; });
}

bool OperatorSplit::reuses_arrivals() const noexcept {
  return !comes_in() && schedule_.pattern == SchedulePattern::ring &&
         schedule_.path == SchedulePath::get;
}

std::int64_t OperatorSplit::reused_rows() const noexcept {
  if (schedule_.shape == ScheduleShape::depth) return largest_block_;
  const std::int64_t pieces = std::max(1u, steps());
  return (largest_block_ + pieces - 1) / pieces;
}

std::int64_t OperatorSplit::arrival_of(unsigned from, unsigned to) const noexcept {
  if (schedule_.pattern == SchedulePattern::ring) return block(from, to).place;
  const unsigned distance = (to + op_.ranks - from) % op_.ranks;
  return largest_block_ * (distance - 1);
}

std::vector<PlanTensor> OperatorSplit::tensors() const {
  const unsigned ranks = op_.ranks;
  const auto most = [ranks](auto of) {
    std::int64_t result = 0;
    for (unsigned rank = 0; rank < ranks; ++rank) result = std::max(result, of(rank));
    return result;
  };
  const std::int64_t depth = most([this](unsigned rank) { return depth_of(rank).size; });
  const std::int64_t width = most([this](unsigned rank) { return columns_of(rank).size; });
  const std::int64_t sources = most([this](unsigned rank) { return rows_of(rank); });
  const std::int64_t places = most([this](unsigned rank) { return rows_at(rank); });
  std::vector<PlanTensor> all = {{"a", sources, depth, op_.type},
                                 {"b", depth, width, op_.type},
                                 {"c", places, width, op_.type}};
  if (has_arrivals()) {
    const bool is_ring = schedule_.pattern == SchedulePattern::ring;
    const bool is_deep = schedule_.shape == ScheduleShape::depth;
    const std::int64_t slots = reuses_arrivals() ? reused_rows() * (is_deep ? 1 : steps())
                               : is_ring         ? op_.m
                                                 : largest_block_ * (ranks - 1);
    all.push_back({"x", comes_in() ? places : slots, moved_columns(), op_.type});
  }
  if (is_staged()) {
    all.push_back({"y", places, width, op_.type});
    if (!comes_in()) all.push_back({"z", sources, depth, op_.type});
  }
  return all;
}

Bytes OperatorSplit::memory() const noexcept {
  Bytes bytes = 0;
  for (const PlanTensor& tensor : tensors())
    bytes += static_cast<Bytes>(tensor.rows) * static_cast<Bytes>(tensor.cols) *
             (tensor.type.bits / kBitsOfByte);
  return bytes;
}

}  // namespace gantry
