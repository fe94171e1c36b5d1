#pragma once  // bench/pipeline/table.hpp: the report for people.

#include "../support/report/report.hpp"
#include "settings.hpp"

namespace gantry::bench {

[[nodiscard]] std::string to_text(const Settings& settings, const Report& report);

}  // namespace gantry::bench
