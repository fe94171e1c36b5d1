#pragma once  // schedule/run/plan_run.hpp: one run of a plan at one rank.

#include "ranks/schedule/run/device_steps.hpp"
#include "ranks/schedule/run/host_steps.hpp"
#include "ranks/schedule/run/rank_script.hpp"

namespace gantry {

/// What does not change from run to run.
struct PreparedPlan {
  Plan plan;
  std::uint64_t hash = 0;
  RankScript script;
  PlanPlaces places;
  std::uint64_t operation = 0;  ///< The group's common call that prepared it.

  /// Says which one runs: the same text may be prepared twice, over other memory.
  [[nodiscard]] std::uint64_t word() const noexcept { return hash ^ operation; }
};

/// Where a rank's steps are computed. Null: it has none of them.
struct RankComputing {
  std::unique_ptr<EndedSteps> ended;
  std::unique_ptr<HostSteps> host;
  std::unique_ptr<DeviceSteps> device;  ///< Products, if a device computes them.

  /// Nothing is under way when it returns.
  void cancel() noexcept;
  [[nodiscard]] std::chrono::nanoseconds take_busy_time() noexcept;
};

/// Hands steps over to the compute thread and to the links as soon as what they wait for has
/// happened, and listens to what comes. Errors: what failed first, here or at another rank; the
/// group is not told yet.
[[nodiscard]] Result<PlanRun> run_plan(const PreparedPlan& prepared, Group::Impl& group,
                                       RankComputing& computing, Deadline deadline);

}  // namespace gantry
