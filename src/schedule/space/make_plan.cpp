#include <fmt/format.h>

#include <algorithm>

#include "base/result.hpp"
#include "schedule/space/draft.hpp"
#include "schedule/space/space.hpp"

namespace gantry {
namespace {

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
  split.comes_in() ? order_inbound(split, draft) : order_outbound(split, draft);
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
