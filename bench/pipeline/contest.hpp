#pragma once  // bench/pipeline/contest.hpp: all cases, their subjects taking turns.

#include "../support/report/report.hpp"
#include "environment.hpp"
#include "trace.hpp"

namespace gantry::bench {

/// Errors: a wrong result, `interrupted`, and what no other subject would have done better with. A
/// subject whose job does not fit, or that cannot be built here, is skipped with the reason.
/// `traced` is given the last round of the first case.
[[nodiscard]] Result<void> run_contest(const Settings& settings, const Environment& environment,
                                       Report& report, std::vector<TracedRun>& traced,
                                       int interrupt_descriptor);

}  // namespace gantry::bench
