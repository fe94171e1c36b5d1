#pragma once  // bench/pipeline/table.hpp: the report for people.

#include "../support/report/report.hpp"

namespace gantry::bench {

[[nodiscard]] std::string to_text(const Report& report);

}  // namespace gantry::bench
