#pragma once  // schedule/product/contest.hpp: schedules that are run to find the quickest.

#include <gantry/schedule/product.hpp>

namespace gantry {

/// By which each of them is run, and what is taken in the end.
[[nodiscard]] PlanExecutorOptions executor_options(const ShardedProductOptions& options);

/// What is to be run: what was chosen, serial if it may be taken, and up to `count` in all beside
/// serial, of those that were thought to take little longer. First the best of each kind (pattern,
/// shape, grain): an error of the prediction is one of the whole kind. Nothing if serial is alone.
[[nodiscard]] std::vector<Schedule> finalists(const Choice& choice, unsigned count);

/// Runs finalists of a choice in turns, and takes the quickest: by the median of the slowest rank's
/// times, which all hear of. What a rank has no plan or memory for is left out by all. Every rank
/// calls it, with the same choice and costs; all get the same. Errors: PlanExecutor's; the group's
/// end.
[[nodiscard]] Result<Choice> choose_by_running(Group& group, const OverlapOperator& op,
                                               Choice choice, const ShardedProductOptions& options,
                                               Deadline deadline);

}  // namespace gantry
