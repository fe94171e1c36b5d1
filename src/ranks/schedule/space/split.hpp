#pragma once  // schedule/space/split.hpp: the first verb: which pieces an operator is cut into, and
              // all points of the space.

#include <gantry/plan.hpp>

#include "ranks/schedule/plan.hpp"

namespace gantry {

inline constexpr unsigned kMostChunks = 4096;

struct SizeSpan {
  std::int64_t first = 0;
  std::int64_t size = 0;
};
/// The part of `size` that is the `index`-th of `count`.
[[nodiscard]] constexpr SizeSpan share(std::int64_t size, std::int64_t index, std::int64_t count) {
  const std::int64_t first = size * index / count;
  return {first, size * (index + 1) / count - first};
}

/// Rows that one rank has for another.
struct RowBlock {
  std::int64_t source = 0;  ///< Where they begin with whom they are from: in `a`, or in `c`.
  std::int64_t place = 0;   ///< Where they belong with whom they are for.
  std::int64_t rows = 0;
};

/// The geometry of an operator that a schedule has cut: blocks of rows, and pieces of them.
class OperatorSplit {
 public:
  /// Errors: `invalid_argument`, `too_large`.
  [[nodiscard]] static Result<OperatorSplit> of(const OverlapOperator& op,
                                                const Schedule& schedule);

  [[nodiscard]] const OverlapOperator& op() const noexcept { return op_; }
  [[nodiscard]] const Schedule& schedule() const noexcept { return schedule_; }
  [[nodiscard]] bool comes_in() const noexcept {
    return op_.kind != OverlapKind::gemm_reduce_scatter;
  }
  [[nodiscard]] RowBlock block(unsigned from, unsigned to) const noexcept;
  /// Rows of A for `rank`, of whoever has them; of gemm_reduce_scatter all.
  [[nodiscard]] std::int64_t rows_at(unsigned rank) const noexcept;
  /// Rows of A that `rank` has for all.
  [[nodiscard]] std::int64_t rows_of(unsigned rank) const noexcept;
  [[nodiscard]] SizeSpan columns_of(
      unsigned rank) const noexcept;                              ///< Of B, that a rank multiplies.
  [[nodiscard]] SizeSpan depth_of(unsigned rank) const noexcept;  ///< That a rank multiplies.

  [[nodiscard]] std::int64_t largest_block() const noexcept { return largest_block_; }

  /// Pieces of the block; none if it is empty.
  [[nodiscard]] unsigned pieces(unsigned from, unsigned to) const noexcept;
  /// One of them, from the block's first row.
  [[nodiscard]] PlanRect piece(unsigned from, unsigned to, unsigned index) const noexcept;
  [[nodiscard]] unsigned steps() const noexcept;  ///< The most pieces of any block.
  /// Columns of the matrix that moves.
  [[nodiscard]] std::int64_t moved_columns() const noexcept { return comes_in() ? op_.k : op_.n; }
  /// Pieces of a step do not lie side by side; copies bring them together.
  [[nodiscard]] bool is_staged() const noexcept;
  /// What moves has a place of its own where it arrives: a tensor behind `c`.
  [[nodiscard]] bool has_arrivals() const noexcept;
  /// Pieces of a step arrive in the same place, one round after another: who gets them knows when
  /// it is free.
  [[nodiscard]] bool reuses_arrivals() const noexcept;
  /// Rows of such a place: those of the largest piece.
  [[nodiscard]] std::int64_t reused_rows() const noexcept;
  /// At which row of it a piece's rows arrive: those of gemm_reduce_scatter.
  [[nodiscard]] std::int64_t arrival_of(unsigned from, unsigned to) const noexcept;

  /// Some rank has fewer rows for another one than a schedule may cut, or columns are as few.
  [[nodiscard]] bool is_uneven() const noexcept;
  /// Which schedule stands for those that cut this operator in the same way.
  [[nodiscard]] Schedule canonical(Schedule schedule) const noexcept;
  /// The same operator, cut in another way.
  void cut(const Schedule& schedule) { schedule_ = canonical(schedule); }

  [[nodiscard]] std::vector<PlanTensor> tensors() const;
  [[nodiscard]] Bytes memory() const noexcept;  ///< Of all tensors of a rank.

 private:
  OperatorSplit(const OverlapOperator& op, const Schedule& schedule)
      : op_(op), schedule_(schedule) {}
  void find_blocks();
  [[nodiscard]] Schedule canonical_of_two(Schedule schedule) const noexcept;

  OverlapOperator op_;
  Schedule schedule_;
  std::vector<RowBlock> blocks_;  // of all_to_all_gemm, at from * ranks + to
  std::vector<std::int64_t> rows_of_, rows_at_;
  std::int64_t largest_block_ = 0;
  bool moves_ = false;  // anything at all
};

/// Errors: `invalid_argument`, `too_large`.
[[nodiscard]] Result<void> check_operator(const OverlapOperator& op);

/// Each canonical schedule of the operator once, serial first.
[[nodiscard]] std::vector<Schedule> points_of(const OperatorSplit& split);
/// Whether the schedule by which the operator is cut keeps to them.
[[nodiscard]] bool allows(const ScheduleConstraints& constraints,
                          const OperatorSplit& split) noexcept;

/// As make_plan(), but that the plan may be too large to be proved.
[[nodiscard]] Result<Plan> draft_plan(const OverlapOperator& op, const Schedule& schedule);

}  // namespace gantry
