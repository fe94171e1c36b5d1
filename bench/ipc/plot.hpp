#pragma once  // bench/ipc/plot.hpp: the report as a picture.

#include "../support/report/report.hpp"

namespace gantry::bench {

/// An SVG: throughput of the cases of one size each, subject by subject; both axes logarithmic.
/// "" when there are fewer than two sizes.
[[nodiscard]] std::string plot_svg(const Report& report);

}  // namespace gantry::bench
