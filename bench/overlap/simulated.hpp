#pragma once  // bench/overlap/simulated.hpp: machines that are not here, in virtual time.

#include "../support/report/report.hpp"
#include "settings.hpp"

namespace gantry::bench {

/// Measures groups of 2, 3 and 4 ranks and what the simulator predicts of them; only if that holds
/// does it add what it predicts of published machines, as cases that begin with "simulated/".
/// Otherwise they are skipped, with the reason. Errors: as measure_topology().
[[nodiscard]] Result<void> measure_simulated(const Settings& settings, int interrupt_descriptor,
                                             Report& report);

}  // namespace gantry::bench
