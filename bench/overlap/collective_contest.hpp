#pragma once  // bench/overlap/collective_contest.hpp: collectives, beside Open MPI's.

#include "../support/report/report.hpp"
#include "mpi_ranks.hpp"
#include "settings.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

/// Each path, number of ranks, collective and size is a case, in which each program, what is picked
/// of them, and Open MPI take turns. Errors: `interrupted`; those of our ranks.
[[nodiscard]] Result<void> measure_collectives(const Settings& settings, cli::Progress& progress,
                                               int interrupt_descriptor, Report& report);
[[nodiscard]] std::size_t cases_of_collectives(const Settings& settings);

/// What is picked beside Open MPI, and beside the best program.
void add_collective_findings(Report& report, const Settings& settings);

}  // namespace gantry::bench
