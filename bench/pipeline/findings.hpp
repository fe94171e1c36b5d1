#pragma once  // bench/pipeline/findings.hpp: the ratios that matter, and what was wanted of them.

#include "../support/report/report.hpp"
#include "environment.hpp"

namespace gantry::bench {

void add_findings(Report& report, const std::vector<Tool>& tools);

}  // namespace gantry::bench
