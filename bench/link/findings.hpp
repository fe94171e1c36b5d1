#pragma once  // bench/link/findings.hpp: the ratios that matter of a finished report.

#include "../support/report/report.hpp"
#include "settings.hpp"

namespace gantry::bench {

void add_link_findings(Report& report, const Settings& settings);

/// What each subject put on the wire for a byte of payload, a line each; "" if nobody counted.
[[nodiscard]] std::string wire_text(const Report& report);

}  // namespace gantry::bench
