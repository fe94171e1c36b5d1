#pragma once  // tools/gantry/run/report/compare.hpp: one pipeline over two transports.

#include "run/report/report.hpp"

namespace gantry::run {

/// Both reports are of the same pipeline. Ratios say how many times as much the second took.
struct Comparison {
  RunReport run;
  RunReport compared;
};

[[nodiscard]] std::string to_text(const Comparison& comparison);
[[nodiscard]] nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace gantry::run
