#pragma once  // bench/support/program/plot.hpp: the report as a picture.

#include "../report/report.hpp"

namespace gantry::bench {

/// An SVG. Where cases are sizes, two of them or more: throughput over size, a line for each
/// subject, both axes logarithmic. Else the report's first metric: for each case and subject a dot
/// at the median, between the least and the most of the rounds, on one logarithmic axis. "" when
/// there is nothing to draw.
[[nodiscard]] std::string plot_svg(const Report& report);

}  // namespace gantry::bench
