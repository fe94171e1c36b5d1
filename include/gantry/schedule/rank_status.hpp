#pragma once  // gantry/schedule/rank_status.hpp: where the ranks of groups are, as another process
              // sees it.

#include <gantry/channel/status.hpp>
#include <gantry/schedule/plan.hpp>

namespace gantry {

/// What a rank of a running plan does.
enum class RankState : std::uint8_t {
  joining,    ///< Not all ranks have come.
  idle,       ///< None of the group's calls is under way here.
  preparing,  ///< A plan, until all ranks have it.
  running,    ///< A plan.
  broken,     ///< It will not run again.
};
[[nodiscard]] GANTRY_API std::string_view to_string(RankState state) noexcept;

/// A step of the rank's plan.
struct RankStep {
  std::uint32_t step = 0;         ///< Its index in the plan.
  PlanVerb verb = PlanVerb::put;  ///< What it does.
  /// The far rank: where a transfer goes, or comes from; who does a step that is waited for.
  std::optional<unsigned> peer = {};
  friend bool operator==(const RankStep&, const RankStep&) = default;
};

/// What keeps a rank.
struct GANTRY_API RankOperation {
  std::optional<unsigned> absent = {};   ///< That rank has not joined, prepared, or begun the run.
  std::optional<RankStep> own = {};      ///< A step of the rank's own: under way, if nothing is
                                         ///< awaited.
  std::optional<RankStep> awaited = {};  ///< It waits for that one; without an own step its memory
                                         ///< does.
  /// "step 4 (barrier) waits for step 7 (barrier) of rank 2"
  [[nodiscard]] std::string text() const;
  friend bool operator==(const RankOperation&, const RankOperation&) = default;
};

/// A rank as it says itself; whatever it says, within bounds.
struct GANTRY_API RankStatus {
  std::string group;                             ///< Its name.
  unsigned rank = 0;                             ///< From 0.
  unsigned ranks = 1;                            ///< Of the group.
  int pid = 0;                                   ///< 0: it lives in another PID namespace.
  ProcessState process = ProcessState::unknown;  ///< `unknown` without a pid.
  RankState state = RankState::joining;          ///< What it does now.
  std::string why;                               ///< It is broken.
  std::chrono::nanoseconds in_state{};           ///< For so long.
  std::uint64_t epoch = 0;                       ///< Group::epoch().
  std::uint64_t operation = 0;            ///< Of the group's common calls, from 1; 0: in none.
  std::uint64_t plan_hash = 0;            ///< Of the newest plan.
  std::string plan;                       ///< Plan::about of that.
  std::uint64_t runs = 0;                 ///< Of all plans, the present one included.
  std::uint64_t steps = 0;                ///< That this rank does of the plan; a barrier is two.
  std::uint64_t ended = 0;                ///< Of those, in the newest run.
  std::optional<RankStep> handed_over;    ///< The newest step that began in it.
  std::vector<RankOperation> operations;  ///< At most eight, when the rank last came to wait.

  /// Its state and operations in one line.
  [[nodiscard]] std::string text() const;
};

/// The ranks of this user that live and have a page in `directory` (by the rule of
/// channel_directory()) or in a run directory of `gantry run` there, by group and rank. It asks
/// none of them: one that is stopped is shown, too. Removes pages of the dead. Errors: those of the
/// directory; a missing one has no ranks.
[[nodiscard]] GANTRY_API Result<std::vector<RankStatus>> list_ranks(
    std::string_view directory = {});

}  // namespace gantry
