#pragma once  // schedule/space/space.hpp: the points of the space, for those who choose among them.

#include "schedule/space/split.hpp"

namespace gantry {

/// Each canonical schedule of the operator once, serial first.
[[nodiscard]] std::vector<Schedule> points_of(const OperatorSplit& split);
/// Whether the schedule by which the operator is cut keeps to them.
[[nodiscard]] bool allows(const ScheduleConstraints& constraints,
                          const OperatorSplit& split) noexcept;

/// As make_plan(), but that the plan may be too large to be proved.
[[nodiscard]] Result<Plan> draft_plan(const OverlapOperator& op, const Schedule& schedule);

}  // namespace gantry
