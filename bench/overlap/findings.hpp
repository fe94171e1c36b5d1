#pragma once  // bench/overlap/findings.hpp: what the figures come to.

#include "../support/report/report.hpp"
#include "settings.hpp"

namespace gantry::bench {

/// Adds the ideal, each subject's share of it, and the ratios that are wanted.
void add_overlap_findings(Report& report, const Settings& settings);

}  // namespace gantry::bench
