#pragma once  // schedule/plan_shape.hpp: what a plan has to be before anybody follows it.

#include "schedule/plan.hpp"

namespace gantry {

/// Ranks, lanes, names, places and shapes fit; each step touches what its verb may touch. Errors:
/// `invalid_argument`, `too_large`.
[[nodiscard]] Result<void> check_shape(const Plan& plan);
/// Needs check_shape(). Errors: `too_large`.
[[nodiscard]] Result<PlanFacts> facts_of(const Plan& plan);

}  // namespace gantry
