#include "ranks/schedule/space/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "ranks/schedule/plan.hpp"

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

constexpr unsigned kMostChunksOfSpace = 16;
constexpr unsigned kMostRanksToCompare = 8;  // plan by plan; with more it would take seconds

bool copies(const OperatorSplit& split) noexcept {
  const Schedule& schedule = split.schedule();
  const bool brings_own =
      split.op().kind == OverlapKind::all_to_all_gemm &&
      (schedule.pattern == SchedulePattern::serial ||
       (schedule.pattern == SchedulePattern::at_once && schedule.start == ScheduleStart::even &&
        schedule.grain == ScheduleGrain::per_step));
  return split.op().ranks > 1 && (split.is_staged() || brings_own);
}

/// Whether products are cut along it. Rows of a gather are cut by every schedule but the serial
/// one; so are those of a scatter.
bool splits(const OperatorSplit& split, ScheduleShape what) noexcept {
  const Schedule& schedule = split.schedule();
  if (schedule.pattern == SchedulePattern::serial) return false;
  if (what == ScheduleShape::rows)
    return schedule.shape == ScheduleShape::rows || schedule.start == ScheduleStart::own_first ||
           schedule.grain == ScheduleGrain::per_piece || schedule.pattern == SchedulePattern::ring;
  return split.comes_in() && schedule.shape == ScheduleShape::depth &&
         (schedule.grain == ScheduleGrain::per_piece ||
          schedule.pattern == SchedulePattern::at_once);
}

/// Where there are fewer rows or columns than chunks, decisions that differ may come to the same.
Result<void> drop_same_plans(const OverlapOperator& op, std::vector<Schedule>& all) {
  std::set<std::string> seen;
  std::vector<Schedule> different;
  for (const Schedule& schedule : all) {
    GANTRY_ASSIGN(Plan plan, make_plan(op, schedule));
    plan.about.clear();
    if (seen.insert(to_text(plan)).second) different.push_back(schedule);
  }
  all = std::move(different);
  return {};
}

Result<std::vector<Schedule>> list(const OverlapOperator& op,
                                   const ScheduleConstraints& constraints) {
  GANTRY_ASSIGN(OperatorSplit split, OperatorSplit::of(op, {}));
  std::vector<Schedule> all = points_of(split);
  std::erase_if(all, [&](const Schedule& schedule) {
    split.cut(schedule);
    return !allows(constraints, split);
  });
  if (split.is_uneven() && op.ranks <= kMostRanksToCompare) GANTRY_TRY(drop_same_plans(op, all));
  return all;
}

constexpr std::string_view kMagic = "gantry-schedule 1";

template <class Value>
struct Word {
  std::string_view text;
  Value value;
};
constexpr std::array kKinds = {
    Word{"all-gather-gemm", OverlapKind::all_gather_gemm},
    Word{"gemm-reduce-scatter", OverlapKind::gemm_reduce_scatter},
    Word{"all-to-all-gemm", OverlapKind::all_to_all_gemm},
};
constexpr std::array kPatterns = {
    Word{"serial", SchedulePattern::serial},
    Word{"ring", SchedulePattern::ring},
    Word{"at-once", SchedulePattern::at_once},
};
constexpr std::array kShapes = {Word{"rows", ScheduleShape::rows},
                                Word{"depth", ScheduleShape::depth}};
constexpr std::array kStarts = {Word{"even", ScheduleStart::even},
                                Word{"own-first", ScheduleStart::own_first}};
constexpr std::array kGrains = {Word{"step", ScheduleGrain::per_step},
                                Word{"piece", ScheduleGrain::per_piece}};
constexpr std::array kPaths = {Word{"put", SchedulePath::put}, Word{"get", SchedulePath::get}};

template <class Known, class Value>
std::string_view word_of(const Known& known, Value value) noexcept {
  for (const auto& word : known)
    if (word.value == value) return word.text;
  return "?";
}

/// Reads the next word, which is one of `known`.
template <class Known, class Value>
Result<void> read(Words& words, const Known& known, Value& value) {
  const std::string_view next = words.next();
  std::string all;
  for (const auto& word : known) {
    if (word.text == next) {
      value = word.value;
      return {};
    }
    all += fmt::format("{}{}", all.empty() ? "" : ", ", word.text);
  }
  return fail(
      Code::invalid_argument,
      next.empty() ? std::string("a word of the schedule is missing") : "unexpected " + quote(next),
      "one of " + all);
}

Result<void> read_chunks(Words& words, unsigned& chunks) {
  const std::string_view word = words.next();
  chunks = number_in<unsigned>(word).value_or(0);
  if (chunks >= 1 && chunks <= kMostChunks) return {};
  return fail(Code::invalid_argument, quote(word) + " chunks",
              fmt::format("a whole number from 1 to {}", kMostChunks));
}

Result<Schedule> read_schedule(std::string_view text) {
  if (text.starts_with(kMagic))
    return fail(Code::invalid_argument, "a whole sentence where a schedule belongs",
                fmt::format("parse_sentence() reads it; or leave '{} OPERATOR' out", kMagic));
  Words words(text);
  Schedule schedule;
  GANTRY_TRY(read(words, kPatterns, schedule.pattern));
  if (schedule.pattern != SchedulePattern::serial) {
    GANTRY_TRY(read(words, kShapes, schedule.shape));
    GANTRY_TRY(read(words, kStarts, schedule.start));
    GANTRY_TRY(read(words, kGrains, schedule.grain));
    GANTRY_TRY(read_chunks(words, schedule.chunks));
  }
  GANTRY_TRY(read(words, kPaths, schedule.path));
  GANTRY_TRY(words.expect_end());
  if (to_string(schedule) == text) return schedule;
  return fail(Code::invalid_argument, quote(text) + " is not written as schedules are",
              fmt::format("'{}'", to_string(schedule)));
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
  for (const PlanTensor& tensor : tensors()) bytes += bytes_of(tensor);
  return bytes;
}

// ---- all points of the space, and what a user forbids -----------------------------------------

std::vector<Schedule> points_of(const OperatorSplit& split) {
  const unsigned ranks = split.op().ranks;
  const unsigned last = ranks > kMostChunksOfSpace ? kMostChunksOfSpace + 1 : kMostChunksOfSpace;
  std::vector<Schedule> all;
  all.reserve(std::size_t{2} + 16 * std::size_t{last} * 2);
  const auto add = [&](const Schedule& one) {
    const Schedule same = split.canonical(one);
    const bool is_last = one.chunks > kMostChunksOfSpace && same.chunks > kMostChunksOfSpace;
    if (same == one || (is_last && same.pattern == one.pattern && same.grain == one.grain &&
                        same.start == one.start))
      all.push_back(same);
  };
  for (const auto path : {SchedulePath::put, SchedulePath::get}) add({.path = path});
  for (const auto pattern : {SchedulePattern::ring, SchedulePattern::at_once})
    for (const auto shape : {ScheduleShape::rows, ScheduleShape::depth})
      for (const auto start : {ScheduleStart::even, ScheduleStart::own_first})
        for (const auto grain : {ScheduleGrain::per_step, ScheduleGrain::per_piece})
          for (unsigned chunks = 1; chunks <= last; ++chunks)
            for (const auto path : {SchedulePath::put, SchedulePath::get})
              add({pattern, shape, start, grain, chunks > kMostChunksOfSpace ? ranks : chunks,
                   path});
  return all;
}

bool allows(const ScheduleConstraints& constraints, const OperatorSplit& split) noexcept {
  if (constraints.at_most != ~Bytes{0} && split.memory() > constraints.at_most) return false;
  if (constraints.no_split && splits(split, *constraints.no_split)) return false;
  if (constraints.same_place && copies(split)) return false;
  return !constraints.replicated ||
         (split.op().kind == OverlapKind::all_gather_gemm && !split.is_staged());
}

Result<std::vector<Schedule>> schedules_of(const OverlapOperator& op,
                                           const ScheduleConstraints& constraints) {
  return guarded([&] { return list(op, constraints); });
}

Result<Schedule> canonical(const OverlapOperator& op, const Schedule& schedule) {
  return guarded([&]() -> Result<Schedule> {
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op, schedule));
    return split.schedule();
  });
}

Result<Bytes> memory_of(const OverlapOperator& op, const Schedule& schedule) {
  return guarded([&]() -> Result<Bytes> {
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op, schedule));
    return split.memory();
  });
}

// ---- schedules as sentences of words, apart by one space --------------------------------------

std::string_view to_string(OverlapKind kind) noexcept {
  return word_of(kKinds, kind);
}

Result<OverlapKind> parse_overlap_kind(std::string_view text) {
  return guarded([&]() -> Result<OverlapKind> {
    const auto known = std::ranges::find(kKinds, text, &Word<OverlapKind>::text);
    if (known != kKinds.end()) return known->value;
    return fail(Code::invalid_argument, "there is no operator " + quote(text),
                "all-gather-gemm, gemm-reduce-scatter or all-to-all-gemm");
  });
}

std::string to_string(const Schedule& schedule) {
  if (schedule.pattern == SchedulePattern::serial)
    return fmt::format("serial {}", word_of(kPaths, schedule.path));
  return fmt::format("{} {} {} {} {} {}", word_of(kPatterns, schedule.pattern),
                     word_of(kShapes, schedule.shape), word_of(kStarts, schedule.start),
                     word_of(kGrains, schedule.grain), schedule.chunks,
                     word_of(kPaths, schedule.path));
}

Result<Schedule> parse_schedule(std::string_view text) {
  return guarded([&] { return read_schedule(text); });
}

std::string to_string(const ScheduleSentence& sentence) {
  return fmt::format("{} {} {}", kMagic, to_string(sentence.kind), to_string(sentence.schedule));
}

Result<ScheduleSentence> parse_sentence(std::string_view text) {
  return guarded([&]() -> Result<ScheduleSentence> {
    if (!text.starts_with(kMagic) || text.substr(kMagic.size()).empty() ||
        text[kMagic.size()] != ' ')
      return fail(Code::invalid_argument, "no schedule of this version",
                  fmt::format("it begins with '{} '", kMagic));
    text.remove_prefix(kMagic.size() + 1);
    Words words(text.substr(0, text.find(' ')));
    ScheduleSentence sentence;
    GANTRY_TRY(read(words, kKinds, sentence.kind));
    text.remove_prefix(std::min(to_string(sentence.kind).size() + 1, text.size()));
    GANTRY_ASSIGN(sentence.schedule, read_schedule(text));
    return sentence;
  });
}

}  // namespace gantry
