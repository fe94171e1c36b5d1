#pragma once  // bench/ipc/findings.hpp: the ratios that matter, and what was wanted of them.

#include "../support/report/report.hpp"

namespace gantry::bench {

/// Adds those for which the subjects are there. With `best_of_peers` also ratios to the best of the
/// other systems, whichever that is.
void add_findings(Report& report, bool best_of_peers);

}  // namespace gantry::bench
