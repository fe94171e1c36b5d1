#include <algorithm>

#include "schedule/space/draft.hpp"

namespace gantry {
namespace {

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

  [[nodiscard]] static PlanRect moved(PlanRect rect, std::int64_t rows) {
    rect.row += rows;
    return rect;
  }
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

}  // namespace

void order_inbound(const OperatorSplit& split, PlanDraft& draft) {
  Inbound(split, draft).order();
}

}  // namespace gantry
