#include <algorithm>

#include "schedule/space/draft.hpp"

namespace gantry {
namespace {

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

  [[nodiscard]] static PlanRect moved(PlanRect rect, std::int64_t rows) {
    rect.row += rows;
    return rect;
  }
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

}  // namespace

void order_outbound(const OperatorSplit& split, PlanDraft& draft) {
  Outbound(split, draft).order();
}

}  // namespace gantry
