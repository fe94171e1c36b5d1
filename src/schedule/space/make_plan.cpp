#include <fmt/format.h>

#include "base/result.hpp"
#include "schedule/space/draft.hpp"

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

Result<Plan> make(const OperatorSplit& split) {
  const OverlapOperator& op = split.op();
  if (std::size_t{op.ranks} * op.ranks * split.steps() > kMostSteps)
    return fail(Code::too_large, fmt::format("{} ranks, {} chunks: over {} steps", op.ranks,
                                             split.steps(), kMostSteps));
  const bool by_peer =
      op.kind == OverlapKind::all_to_all_gemm && split.schedule().pattern == SchedulePattern::ring;
  PlanDraft draft(split, by_peer);
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

}  // namespace

Result<Plan> make_plan(const OverlapOperator& op, const Schedule& schedule) {
  return guarded([&]() -> Result<Plan> {
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op, schedule));
    return make(split);
  });
}

}  // namespace gantry
