#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "ranks/schedule/space/split.hpp"

namespace gantry {
namespace {

// ---- the second verb: who does a step, in which lane --------------------------------------------

std::string about_of(const OperatorSplit& split) {
  const OverlapOperator& op = split.op();
  std::string text = fmt::format("{} of {} x {} x {} {}: {}", to_string(op.kind), op.m, op.n, op.k,
                                 name_of(op.type), to_string(split.schedule()));
  if (!op.split.empty()) text += fmt::format(", split {}", fmt::join(op.split, " "));
  return text;
}

/// A plan in the making. Each peer of a rank has a lane of its own, as far as there are lanes;
/// what a rank computes is lane 0, in the order in which it is added.
class PlanDraft {
 public:
  static constexpr unsigned kA = 0, kB = 1, kC = 2, kArrivals = 3, kStagedProduct = 4,
                            kStagedInput = 5;
  static constexpr unsigned kNone = ~0u;
  using Steps = std::vector<unsigned>;

  /// `most_lanes`: of a rank, at least two.
  PlanDraft(const OperatorSplit& split, bool one_peer_at_a_time, unsigned most_lanes)
      : computed_(split.op().ranks, kNone),
        path_(split.schedule().path),
        one_peer_at_a_time_(one_peer_at_a_time),
        most_lanes_(most_lanes) {
    plan_.ranks = split.op().ranks;
    plan_.tensors = split.tensors();
    plan_.about = about_of(split);
  }

  /// Moves a rectangle to another rank by the schedule's path, behind steps that its owner hears
  /// of; a get behind `is_free`, too, a step of whoever gets it. Returns what whoever has it then
  /// waits for; kNone if there is nothing to move.
  unsigned move(const PlanPlace& from, const PlanPlace& to, const Steps& after,
                unsigned is_free = kNone) {
    if (is_empty(from.rect)) return kNone;
    if (path_ == SchedulePath::put)
      return add(
          {PlanVerb::put, from.rank, lane_of(from.rank, to.rank), to, from, {}, false, after});
    Steps heard;
    if (!after.empty()) {
      heard = {add({PlanVerb::signal,
                    from.rank,
                    lane_of(from.rank, to.rank),
                    {to.rank, 0, {}},
                    {},
                    {},
                    false,
                    after})};
    }
    if (is_free != kNone) heard.push_back(is_free);
    return add({PlanVerb::get, to.rank, lane_of(to.rank, from.rank), to, from, {}, false, heard});
  }
  /// `to` = `from` * `other`, or adds that. Zero where there is no depth.
  void multiply(const PlanPlace& to, const PlanPlace& from, const PlanPlace& other, bool adds,
                Steps after) {
    if (is_empty(to.rect)) return;
    if (from.rect.cols == 0) return adds ? void() : fill(to);
    compute({PlanVerb::gemm, to.rank, 0, to, from, other, adds, std::move(after)});
  }
  void copy(const PlanPlace& to, const PlanPlace& from, Steps after) {
    if (is_empty(to.rect)) return;
    compute({PlanVerb::copy, to.rank, 0, to, from, {}, false, std::move(after)});
  }
  void reduce(const PlanPlace& to, const PlanPlace& from, Steps after) {
    if (is_empty(to.rect)) return;
    compute({PlanVerb::reduce, to.rank, 0, to, from, {}, false, std::move(after)});
  }
  void fill(const PlanPlace& to) {
    if (is_empty(to.rect)) return;
    compute({PlanVerb::fill, to.rank, 0, to, {}, {}, false, {}});
  }
  /// The step that the rank computes last, so far.
  [[nodiscard]] unsigned last_computed(unsigned rank) const noexcept { return computed_[rank]; }

  [[nodiscard]] Plan take() { return std::move(plan_); }

 private:
  unsigned lane_of(unsigned rank, unsigned peer) {
    GANTRY_DEBUG_ASSERT(peer != rank && peer < plan_.ranks && most_lanes_ > 1);
    const unsigned distance = (peer + plan_.ranks - rank) % plan_.ranks;
    const unsigned lane = one_peer_at_a_time_ ? 1 : 1 + (distance - 1) % (most_lanes_ - 1);
    plan_.lanes = std::max(plan_.lanes, lane + 1);
    return lane;
  }
  unsigned add(PlanStep step) {
    plan_.steps.push_back(std::move(step));
    return static_cast<unsigned>(plan_.steps.size() - 1);
  }
  void compute(PlanStep step) {
    const unsigned rank = step.rank;
    computed_[rank] = add(std::move(step));
  }

  Plan plan_;
  std::vector<unsigned> computed_;  // of each rank: its last step in lane 0
  SchedulePath path_;
  bool one_peer_at_a_time_;
  unsigned most_lanes_;
};

// ---- the third verb: in which order pieces move and are multiplied ------------------------------

PlanRect moved(PlanRect rect, std::int64_t rows) {
  rect.row += rows;
  return rect;
}

/// A moves, and is multiplied where it arrives.
class Inbound {
 public:
  Inbound(const OperatorSplit& split, PlanDraft& draft)
      : split_(split),
        draft_(draft),
        schedule_(split.schedule()),
        ranks_(split.op().ranks),
        steps_(std::max(1u, split.steps())),
        is_even_(schedule_.start == ScheduleStart::even),
        is_in_place_(!split.has_arrivals()),
        arrived_(std::size_t{ranks_} * ranks_ * steps_, PlanDraft::kNone) {
    if (split_.is_staged()) find_places();
  }

  void order() {
    if (schedule_.pattern != SchedulePattern::ring)
      move_at_once();
    else if (split_.op().kind == OverlapKind::all_gather_gemm)
      pass_around();
    else
      move_by_peer();
    for (unsigned rank = 0; rank < ranks_; ++rank) multiply_at(rank);
  }

 private:
  using Steps = PlanDraft::Steps;

  unsigned& arrived(unsigned from, unsigned to, unsigned step) {
    return arrived_[(std::size_t{to} * ranks_ + from) * steps_ + step];
  }
  /// Where all of a block's pieces have arrived.
  Steps arrivals(unsigned from, unsigned to) {
    Steps all;
    for (unsigned step = 0; step < steps_; ++step)
      if (arrived(from, to, step) != PlanDraft::kNone) all.push_back(arrived(from, to, step));
    return all;
  }
  Steps arrivals_of_step(unsigned to, unsigned step) {
    Steps all;
    for (unsigned from = 0; from < ranks_; ++from)
      if (arrived(from, to, step) != PlanDraft::kNone) all.push_back(arrived(from, to, step));
    return all;
  }

  // ---- where it lies -----------------------------------------------------------------------

  [[nodiscard]] PlanPlace own(unsigned rank, const PlanRect& piece) const {
    return {rank, PlanDraft::kA, moved(piece, split_.block(rank, rank).source)};
  }
  /// Where a piece is after it has come, or, of one's own, where a step finds it.
  [[nodiscard]] PlanPlace there(unsigned from, unsigned to, unsigned step) const {
    const PlanRect piece = split_.piece(from, to, step);
    if (split_.is_staged()) {
      PlanRect rect = piece;
      rect.row = places_[(std::size_t{to} * steps_ + step) * (ranks_ + 1) + from];
      return {to, PlanDraft::kArrivals, rect};
    }
    return {to, input(), moved(piece, split_.block(from, to).place)};
  }
  [[nodiscard]] unsigned input() const {
    return is_in_place_ ? PlanDraft::kA : PlanDraft::kArrivals;
  }
  /// The pieces of a step lie one behind the other, by whom they are from.
  void find_places() {
    for (unsigned to = 0; to < ranks_; ++to) {
      std::int64_t row = 0;
      for (unsigned step = 0; step < steps_; ++step) {
        for (unsigned from = 0; from < ranks_; ++from) {
          places_.push_back(row);
          if ((from != to || is_even_) && step < split_.pieces(from, to))
            row += split_.piece(from, to, step).rows;
        }
        places_.push_back(row);
      }
    }
  }

  // ---- what moves --------------------------------------------------------------------------

  void move_piece(unsigned from, unsigned to, unsigned step) {
    if (step >= split_.pieces(from, to)) return;
    const PlanPlace source{from, PlanDraft::kA,
                           moved(split_.piece(from, to, step), split_.block(from, to).source)};
    arrived(from, to, step) = draft_.move(source, there(from, to, step), {});
  }
  void move_at_once() {
    for (unsigned step = 0; step < steps_; ++step)
      for (unsigned distance = 1; distance < ranks_; ++distance)
        for (unsigned from = 0; from < ranks_; ++from)
          move_piece(from, (from + distance) % ranks_, step);
  }
  void move_by_peer() {
    for (unsigned distance = 1; distance < ranks_; ++distance)
      for (unsigned step = 0; step < steps_; ++step)
        for (unsigned from = 0; from < ranks_; ++from)
          move_piece(from, (from + distance) % ranks_, step);
  }
  /// Each rank gives the next one what has come to it in the round before.
  void pass_around() {
    for (unsigned round = 0; round + 1 < ranks_; ++round)
      for (unsigned step = 0; step < steps_; ++step)
        for (unsigned rank = 0; rank < ranks_; ++rank) {
          const unsigned owner = (rank + ranks_ - round) % ranks_;
          const unsigned next = (rank + 1) % ranks_;
          if (step >= split_.pieces(owner, next)) continue;
          const Steps after = round == 0 ? Steps{} : Steps{arrived(owner, rank, step)};
          arrived(owner, next, step) =
              draft_.move(there(owner, rank, step), there(owner, next, step), after);
        }
  }

  // ---- what is multiplied ------------------------------------------------------------------

  /// Rows of an input, at `row` of the output.
  void multiply(const PlanPlace& from, std::int64_t row, bool adds, Steps after,
                unsigned output = PlanDraft::kC) {
    const std::int64_t columns = split_.columns_of(from.rank).size;
    draft_.multiply({from.rank, output, {row, 0, from.rect.rows, columns}}, from,
                    {from.rank, PlanDraft::kB, {from.rect.col, 0, from.rect.cols, columns}}, adds,
                    std::move(after));
  }
  void multiply_piece(unsigned from, unsigned to, unsigned step) {
    if (step >= split_.pieces(from, to)) return;
    const PlanRect piece = split_.piece(from, to, step);
    const bool is_own = from == to;
    multiply(is_own ? own(to, piece) : there(from, to, step),
             split_.block(from, to).place + piece.row, piece.col > 0,
             is_own ? Steps{} : Steps{arrived(from, to, step)});
  }
  void multiply_block(unsigned from, unsigned to) {
    const RowBlock block = split_.block(from, to);
    const PlanRect whole{0, 0, block.rows, split_.op().k};
    if (from == to) return multiply(own(to, whole), block.place, false, {});
    multiply({to, input(), moved(whole, block.place)}, block.place, false, arrivals(from, to));
  }
  /// Brings own rows to where the others arrive.
  void bring_own(unsigned rank) {
    if (is_in_place_) return;
    const RowBlock block = split_.block(rank, rank);
    const PlanRect whole{0, 0, block.rows, split_.op().k};
    draft_.copy({rank, input(), moved(whole, block.place)}, own(rank, whole), {});
  }

  void multiply_at(unsigned rank) {
    if (split_.op().k == 0)
      return draft_.fill(
          {rank, PlanDraft::kC, {0, 0, split_.rows_at(rank), split_.columns_of(rank).size}});
    if (schedule_.pattern == SchedulePattern::serial) return multiply_all(rank);
    const bool is_ring = schedule_.pattern == SchedulePattern::ring;
    if (!is_even_ || (is_ring && schedule_.grain == ScheduleGrain::per_step))
      multiply_block(rank, rank);
    else if (is_ring)
      for (unsigned step = 0; step < steps_; ++step) multiply_piece(rank, rank, step);
    if (is_ring) return multiply_around(rank);
    if (schedule_.grain == ScheduleGrain::per_piece) return multiply_as_they_come(rank);
    if (split_.is_staged()) return multiply_staged(rank);
    multiply_depths(rank);
  }
  void multiply_all(unsigned rank) {
    bring_own(rank);
    Steps all;
    for (unsigned from = 0; from < ranks_; ++from)
      for (const unsigned one : arrivals(from, rank)) all.push_back(one);
    multiply({rank, input(), {0, 0, split_.rows_at(rank), split_.op().k}}, 0, false, all);
  }
  void multiply_around(unsigned rank) {
    for (unsigned distance = 1; distance < ranks_; ++distance) {
      const unsigned from = (rank + ranks_ - distance) % ranks_;
      if (schedule_.grain == ScheduleGrain::per_step)
        multiply_block(from, rank);
      else
        for (unsigned step = 0; step < steps_; ++step) multiply_piece(from, rank, step);
    }
  }
  void multiply_as_they_come(unsigned rank) {
    for (unsigned step = 0; step < steps_; ++step)
      for (unsigned distance = is_even_ ? 0 : 1; distance < ranks_; ++distance)
        multiply_piece((rank + ranks_ - distance) % ranks_, rank, step);
  }
  /// All rows of some columns, or those above and below the own ones.
  void multiply_depths(unsigned rank) {
    if (is_even_) bring_own(rank);
    const std::int64_t rows = split_.rows_at(rank);
    const RowBlock block = split_.block(rank, rank);
    const std::int64_t below = block.place + block.rows;
    for (unsigned step = 0; step < steps_; ++step) {
      const SizeSpan depth = share(split_.op().k, step, steps_);
      const Steps after = arrivals_of_step(rank, step);
      const auto add = [&](std::int64_t first, std::int64_t size) {
        multiply({rank, input(), {first, depth.first, size, depth.size}}, first, step > 0, after);
      };
      if (is_even_) {
        add(0, rows);
      } else {
        add(0, block.place);
        add(below, rows - below);
      }
    }
  }
  /// A step's pieces, gathered; their product goes back to where it belongs.
  void multiply_staged(unsigned rank) {
    for (unsigned step = 0; step < steps_; ++step) {
      if (is_even_ && step < split_.pieces(rank, rank))
        draft_.copy(there(rank, rank, step), own(rank, split_.piece(rank, rank, step)), {});
      const auto* const places = &places_[(std::size_t{rank} * steps_ + step) * (ranks_ + 1)];
      const PlanRect all{places[0], 0, places[ranks_] - places[0], split_.op().k};
      multiply({rank, PlanDraft::kArrivals, all}, all.row, false, arrivals_of_step(rank, step),
               PlanDraft::kStagedProduct);
      for (unsigned from = 0; from < ranks_; ++from) {
        if ((from == rank && !is_even_) || step >= split_.pieces(from, rank)) continue;
        PlanRect rect = split_.piece(from, rank, step);
        rect.cols = split_.columns_of(rank).size;
        draft_.copy({rank, PlanDraft::kC, moved(rect, split_.block(from, rank).place)},
                    {rank, PlanDraft::kStagedProduct, {places[from], 0, rect.rows, rect.cols}}, {});
      }
    }
  }

  const OperatorSplit& split_;
  PlanDraft& draft_;
  const Schedule schedule_;
  const unsigned ranks_;
  const unsigned steps_;
  const bool is_even_;
  const bool is_in_place_;
  std::vector<unsigned> arrived_;     // of each receiver, sender and step: the transfer
  std::vector<std::int64_t> places_;  // of each receiver, step and sender, and behind the last
};

/// The product moves to whose rows it is, and is added there.
class Outbound {
 public:
  Outbound(const OperatorSplit& split, PlanDraft& draft)
      : split_(split),
        draft_(draft),
        schedule_(split.schedule()),
        ranks_(split.op().ranks),
        steps_(std::max(1u, split.steps())),
        is_even_(schedule_.start == ScheduleStart::even),
        staged_rows_(ranks_) {}

  void order() {
    if (schedule_.pattern == SchedulePattern::ring && ranks_ > 1) return pass_around();
    if (schedule_.pattern == SchedulePattern::serial) {
      for (unsigned rank = 0; rank < ranks_; ++rank) multiply_all(rank);
    } else {
      for (unsigned step = 0; step < steps_; ++step)
        for (unsigned rank = 0; rank < ranks_; ++rank) multiply_step(rank, step);
      for (unsigned rank = 0; rank < ranks_; ++rank)
        if (!is_even_ || is_idle(rank)) multiply_block(rank, rank);
    }
    for (const PartSum& one : arrivals_) add_up(one);
  }

 private:
  using Steps = PlanDraft::Steps;
  struct PartSum {
    unsigned from, to;
    PlanRect piece;  // of the block
    unsigned transfer;
  };

  /// One without any depth adds nothing to anybody's rows.
  [[nodiscard]] bool is_idle(unsigned rank) const { return split_.depth_of(rank).size == 0; }

  // ---- where it lies -----------------------------------------------------------------------

  [[nodiscard]] PlanPlace result(unsigned rank, unsigned to, const PlanRect& piece) const {
    return {rank, PlanDraft::kC, moved(piece, split_.block(rank, to).source)};
  }
  [[nodiscard]] PlanPlace arrival(unsigned from, unsigned to, unsigned at,
                                  const PlanRect& piece) const {
    return {at, PlanDraft::kArrivals, moved(piece, split_.arrival_of(from, to))};
  }
  [[nodiscard]] PlanRect whole(unsigned to) const {
    return {0, 0, split_.block(0, to).rows, split_.op().n};
  }

  // ---- what is multiplied ------------------------------------------------------------------

  /// A rectangle of C at `to`, of rows of `input` from `row` on.
  void multiply(const PlanPlace& to, unsigned input, std::int64_t row) {
    const std::int64_t depth = split_.depth_of(to.rank).size;
    draft_.multiply(to, {to.rank, input, {row, 0, to.rect.rows, depth}},
                    {to.rank, PlanDraft::kB, {0, to.rect.col, depth, to.rect.cols}}, false, {});
  }
  void multiply(const PlanPlace& to) { multiply(to, PlanDraft::kA, to.rect.row); }
  void multiply_block(unsigned rank, unsigned to) { multiply(result(rank, to, whole(to))); }

  void multiply_all(unsigned rank) {
    if (is_idle(rank)) return multiply_block(rank, rank);
    multiply({rank, PlanDraft::kC, {0, 0, split_.op().m, split_.op().n}});
    for (unsigned distance = 1; distance < ranks_; ++distance) {
      const unsigned to = (rank + distance) % ranks_;
      send(rank, to, whole(to), result(rank, to, whole(to)));
    }
  }
  void multiply_step(unsigned rank, unsigned step) {
    if (is_idle(rank)) return;
    if (split_.is_staged()) return multiply_staged(rank, step);
    if (schedule_.grain == ScheduleGrain::per_step) multiply_columns(rank, step);
    const bool by_piece = schedule_.grain == ScheduleGrain::per_piece;
    for (unsigned distance = 1; distance <= ranks_; ++distance) {
      const unsigned to = (rank + distance) % ranks_;
      if (step >= split_.pieces(rank, to) || (to == rank && !is_even_)) continue;
      const PlanRect piece = split_.piece(rank, to, step);
      if (by_piece) multiply(result(rank, to, piece));
      if (to != rank) send(rank, to, piece, result(rank, to, piece));
    }
  }
  /// All rows of some columns, or those above and below the own ones.
  void multiply_columns(unsigned rank, unsigned step) {
    const SizeSpan columns = share(split_.op().n, step, steps_);
    const std::int64_t m = split_.op().m;
    const RowBlock own = split_.block(rank, rank);
    const auto of = [&](std::int64_t first, std::int64_t rows) {
      multiply({rank, PlanDraft::kC, {first, columns.first, rows, columns.size}});
    };
    if (is_even_) return of(0, m);
    of(0, own.place);
    of(own.place + own.rows, m - own.place - own.rows);
  }
  /// A step's rows of A, gathered, and their product; what is for others leaves from there.
  void multiply_staged(unsigned rank, unsigned step) {
    std::int64_t& next = staged_rows_[rank];
    const std::int64_t first = next;
    const std::int64_t depth = split_.depth_of(rank).size;
    std::vector<std::int64_t> places(ranks_);
    for (unsigned to = 0; to < ranks_; ++to) {
      places[to] = next;
      if (step >= split_.pieces(rank, to) || (to == rank && !is_even_)) continue;
      PlanRect rows = split_.piece(rank, to, step);
      rows.cols = depth;
      draft_.copy({rank, PlanDraft::kStagedInput, {next, 0, rows.rows, depth}},
                  {rank, PlanDraft::kA, moved(rows, split_.block(rank, to).source)}, {});
      next += rows.rows;
    }
    multiply({rank, PlanDraft::kStagedProduct, {first, 0, next - first, split_.op().n}},
             PlanDraft::kStagedInput, first);
    for (unsigned distance = 1; distance <= ranks_; ++distance) {
      const unsigned to = (rank + distance) % ranks_;
      if (step >= split_.pieces(rank, to) || (to == rank && !is_even_)) continue;
      const PlanRect piece = split_.piece(rank, to, step);
      const PlanPlace from{
          rank, PlanDraft::kStagedProduct, {places[to], 0, piece.rows, piece.cols}};
      if (to == rank)
        draft_.copy(result(rank, to, piece), from, {});
      else
        send(rank, to, piece, from);
    }
  }

  // ---- what moves --------------------------------------------------------------------------

  /// Behind what the rank has computed last.
  void send(unsigned rank, unsigned to, const PlanRect& piece, const PlanPlace& from) {
    if (piece.rows == 0 || piece.cols == 0) return;
    const unsigned transfer =
        draft_.move(from, arrival(rank, to, to, piece), {draft_.last_computed(rank)});
    arrivals_.push_back({rank, to, piece, transfer});
  }
  void add_up(const PartSum& one) {
    draft_.reduce(result(one.to, one.to, one.piece), arrival(one.from, one.to, one.to, one.piece),
                  {one.transfer});
  }

  /// Sums go from neighbour to neighbour; each adds its own part. Rank q begins with the rows of
  /// the rank before it and ends with its own.
  void pass_around() {
    const std::size_t places = std::size_t{ranks_} * steps_;
    std::vector<unsigned> arrived(places, PlanDraft::kNone);  // at each rank
    std::vector<unsigned> read(places, PlanDraft::kNone);  // what had arrived last: by which step
    for (unsigned round = 0; round < ranks_; ++round) {
      std::vector<unsigned> sent(places, PlanDraft::kNone);
      for (unsigned step = 0; step < steps_; ++step) {
        for (unsigned rank = 0; rank < ranks_; ++rank) {
          const std::size_t at = std::size_t{rank} * steps_ + step;
          take_turn(rank, round, step, arrived[at], read[at]);
        }
        for (unsigned rank = 0; rank < ranks_; ++rank) {
          const std::size_t next = std::size_t{(rank + 1) % ranks_} * steps_ + step;
          sent[next] = pass_on(rank, round, step, read[next]);
        }
      }
      arrived = std::move(sent);
    }
  }
  [[nodiscard]] unsigned rows_in_turn(unsigned rank, unsigned round) const {
    return (rank + 2 * ranks_ - 1 - round) % ranks_;
  }
  /// Where a piece that is passed on arrives.
  [[nodiscard]] PlanPlace passed(unsigned rank, unsigned to, unsigned at, unsigned step) const {
    PlanRect piece = split_.piece(rank, to, step);
    if (!split_.reuses_arrivals()) return arrival(rank, to, at, piece);
    if (schedule_.shape == ScheduleShape::rows) piece.row = step * split_.reused_rows();
    return {at, PlanDraft::kArrivals, piece};
  }
  void take_turn(unsigned rank, unsigned round, unsigned step, unsigned arrived, unsigned& read) {
    const unsigned to = rows_in_turn(rank, round);
    if (step >= split_.pieces(rank, to)) return;
    const PlanRect piece = split_.piece(rank, to, step);
    const bool is_whole = schedule_.grain == ScheduleGrain::per_step || (to == rank && !is_even_);
    if (!is_whole) multiply(result(rank, to, piece));
    if (is_whole && step == 0) multiply_block(rank, to);
    if (round == 0) return;
    draft_.reduce(result(rank, to, piece), passed(rank, to, rank, step), {arrived});
    read = draft_.last_computed(rank);
  }
  /// `read`: the next rank's step that frees the place.
  unsigned pass_on(unsigned rank, unsigned round, unsigned step, unsigned read) {
    const unsigned to = rows_in_turn(rank, round);
    if (step >= split_.pieces(rank, to) || to == rank) return PlanDraft::kNone;
    return draft_.move(result(rank, to, split_.piece(rank, to, step)),
                       passed(rank, to, (rank + 1) % ranks_, step), {draft_.last_computed(rank)},
                       split_.reuses_arrivals() ? read : PlanDraft::kNone);
  }

  const OperatorSplit& split_;
  PlanDraft& draft_;
  const Schedule schedule_;
  const unsigned ranks_;
  const unsigned steps_;
  const bool is_even_;
  std::vector<std::int64_t> staged_rows_;  // of each rank, so far
  std::vector<PartSum> arrivals_;
};

// ---- whole plans --------------------------------------------------------------------------------

/// A product's value; zero if there is no depth.
std::vector<PlanTerm> product(std::string right, std::int64_t row, std::int64_t col,
                              std::int64_t depth) {
  if (depth == 0) return {};
  return {{"A", std::move(right), row, col, 0, depth}};
}

void state_gather(const OperatorSplit& split, Plan& plan) {
  const std::int64_t k = split.op().k;
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    const RowBlock own = split.block(rank, rank);
    const SizeSpan columns = split.columns_of(rank);
    plan.given.push_back({{rank, PlanDraft::kA, {own.source, 0, own.rows, k}}, {{"A"}}});
    plan.given.push_back(
        {{rank, PlanDraft::kB, {0, 0, k, columns.size}}, {{"B", {}, 0, columns.first}}});
    plan.wanted.push_back({{rank, PlanDraft::kC, {0, 0, split.op().m, columns.size}},
                           product("B", 0, columns.first, k)});
  }
}

void state_scatter(const OperatorSplit& split, Plan& plan) {
  const OverlapOperator& op = split.op();
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    const RowBlock own = split.block(rank, rank);
    const SizeSpan depth = split.depth_of(rank);
    plan.given.push_back(
        {{rank, PlanDraft::kA, {0, 0, op.m, depth.size}}, {{"A", {}, 0, depth.first}}});
    plan.given.push_back(
        {{rank, PlanDraft::kB, {0, 0, depth.size, op.n}}, {{"B", {}, depth.first, 0}}});
    plan.wanted.push_back(
        {{rank, PlanDraft::kC, {own.place, 0, own.rows, op.n}}, product("B", 0, 0, op.k)});
  }
}

/// A is the rows of rank 0, behind them those of rank 1, and so on; rank d has matrix Bd.
void state_exchange(const OperatorSplit& split, Plan& plan) {
  const OverlapOperator& op = split.op();
  std::int64_t base = 0;
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    const std::int64_t rows = split.rows_of(rank);
    plan.given.push_back({{rank, PlanDraft::kA, {0, 0, rows, op.k}}, {{"A", {}, base, 0}}});
    plan.given.push_back({{rank, PlanDraft::kB, {0, 0, op.k, op.n}}, {{fmt::format("B{}", rank)}}});
    for (unsigned to = 0; to < plan.ranks; ++to) {
      const RowBlock block = split.block(rank, to);
      plan.wanted.push_back(
          {{to, PlanDraft::kC, {block.place, 0, block.rows, op.n}},
           product(fmt::format("B{}", to), base + block.source - block.place, 0, op.k)});
    }
    base += rows;
  }
}

/// Whether each rank has something for each other one, and much to multiply.
bool is_full(const OperatorSplit& split) {
  const OverlapOperator& op = split.op();
  return op.kind != OverlapKind::all_to_all_gemm && op.ranks > 1 &&
         std::min({op.m, op.n, op.k}) >= std::int64_t{op.ranks};
}

Result<Plan> make(const OperatorSplit& split, unsigned most_lanes) {
  const OverlapOperator& op = split.op();
  const bool multiplies_each = split.schedule().pattern == SchedulePattern::ring ||
                               (split.schedule().pattern == SchedulePattern::at_once &&
                                split.schedule().grain == ScheduleGrain::per_piece);
  const std::size_t of_a_piece = is_full(split) && multiplies_each ? 2 : 1;
  if (std::size_t{op.ranks} * (op.ranks - 1) * split.steps() * of_a_piece > kMostSteps)
    return fail(Code::too_large, fmt::format("{} ranks, {} chunks: over {} steps", op.ranks,
                                             split.steps(), kMostSteps));
  const bool by_peer =
      op.kind == OverlapKind::all_to_all_gemm && split.schedule().pattern == SchedulePattern::ring;
  PlanDraft draft(split, by_peer, most_lanes);
  split.comes_in() ? Inbound(split, draft).order() : Outbound(split, draft).order();
  Plan plan = draft.take();
  if (plan.steps.size() > kMostSteps)
    return fail(Code::too_large,
                fmt::format("a plan of {} steps, beyond {}", plan.steps.size(), kMostSteps));
  if (op.kind == OverlapKind::all_gather_gemm) state_gather(split, plan);
  if (op.kind == OverlapKind::gemm_reduce_scatter) state_scatter(split, plan);
  if (op.kind == OverlapKind::all_to_all_gemm) state_exchange(split, plan);
  return plan;
}

/// Of each rank, so that so many steps can be proved: one computes, and the others share the rest.
Result<unsigned> lanes_in_room(const OverlapOperator& op, std::size_t steps) {
  constexpr std::size_t kFewest = 2;
  const std::size_t lanes = kMostStepsInLanes / std::max<std::size_t>(1, steps * op.ranks);
  if (lanes >= kFewest) return static_cast<unsigned>(std::min<std::size_t>(lanes, kMostLanes));
  return fail(
      Code::too_large,
      fmt::format("a plan of {} steps for {} ranks, which cannot be proved", steps, op.ranks),
      "fewer chunks, or fewer ranks");
}

/// Known before anything is made: a choice among hundreds of ranks asks for many such plans.
std::size_t least_steps(const OperatorSplit& split) {
  if (!is_full(split)) return 0;
  const OverlapOperator& op = split.op();
  const bool cuts_rows = split.schedule().shape == ScheduleShape::rows;
  const auto pieces = static_cast<std::size_t>(std::min<std::int64_t>(
      split.schedule().chunks, cuts_rows ? op.m / op.ranks : split.moved_columns()));
  return std::size_t{op.ranks} * (op.ranks - 1) * pieces;
}

}  // namespace

Result<Plan> draft_plan(const OverlapOperator& op, const Schedule& schedule) {
  GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op, schedule));
  return make(split, kMostLanes);
}

Result<Plan> make_plan(const OverlapOperator& op, const Schedule& schedule) {
  return guarded([&]() -> Result<Plan> {
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op, schedule));
    GANTRY_ASSIGN(unsigned lanes, lanes_in_room(op, least_steps(split)));
    GANTRY_ASSIGN(Plan plan, make(split, lanes));
    GANTRY_ASSIGN(lanes, lanes_in_room(op, plan.steps.size()));
    return plan.lanes <= lanes ? plan : make(split, lanes);
  });
}

}  // namespace gantry
