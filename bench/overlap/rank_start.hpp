#pragma once  // bench/overlap/rank_start.hpp: one process a rank, and where they meet.

#include <gantry/plan.hpp>
#include <optional>

#include "../support/process/child.hpp"

namespace gantry::bench {

/// What a rank does that is ready.
using ObeyRank = std::function<Result<Answer>(const Command&)>;
/// In the rank's process.
using OpenRank = std::function<Result<ObeyRank>(unsigned rank)>;

enum class RankCpus : std::uint8_t {
  all,  ///< Each rank runs on all: whoever has work to do does it.
  own,  ///< One a rank, if there are enough.
};

/// Each obeys until its link ends, and says so when it cannot begin. Nobody is waited for. Errors:
/// those of forking.
[[nodiscard]] Result<std::vector<Child>> start_ranks(unsigned ranks, RankCpus cpus,
                                                     const OpenRank& open);

/// A place where all ranks wait for each other, outside of what is timed.
class RankMeeting {
 public:
  /// Every rank calls it. Errors: the group's end; `timed_out` after a minute.
  [[nodiscard]] Result<void> wait(Group& group);

 private:
  std::optional<PlanExecutor> executor_;
};

}  // namespace gantry::bench
