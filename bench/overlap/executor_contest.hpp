#pragma once  // bench/overlap/executor_contest.hpp: what running a plan costs beside a loop by
              // hand.

#include "../support/report/report.hpp"
#include "settings.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

[[nodiscard]] std::size_t cases_of_executor();
/// Errors: `interrupted`; those of a rank.
[[nodiscard]] Result<void> measure_executor(const Settings& settings, cli::Progress& progress,
                                            int interrupt_descriptor, Report& report);
void add_executor_findings(Report& report);

}  // namespace gantry::bench
