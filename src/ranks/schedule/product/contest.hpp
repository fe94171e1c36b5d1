#pragma once  // schedule/product/contest.hpp: what ranks agree on, and schedules that are timed.

#include <gantry/plan.hpp>
#include <gantry/product.hpp>
#include <optional>

namespace gantry {

/// What rank 0 says. Every rank calls it. Errors: the group's end; `timed_out`, `too_large`.
[[nodiscard]] Result<std::string> agree_on(Group& group, const std::string& text,
                                           Deadline deadline);
/// What each says, by rank. Every rank calls it. Errors: the same.
[[nodiscard]] Result<std::vector<std::string>> exchange(Group& group, const std::string& text,
                                                        Deadline deadline);
/// The most that any says. Every rank calls it, with no less than 0. Errors: the same;
/// `peer_misbehaved`.
[[nodiscard]] Result<double> slowest_of(Group& group, double seconds, Deadline deadline);

/// A place where all ranks wait for each other.
class Meeting {
 public:
  explicit Meeting(Group& group) noexcept : group_(group) {}
  /// Every rank calls it. Errors: as PlanExecutor's.
  [[nodiscard]] Result<void> wait(Deadline deadline);

 private:
  Group& group_;
  std::optional<PlanExecutor> executor_;
};

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
