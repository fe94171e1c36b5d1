#pragma once  // bench/support/report/statistics.hpp: what is quoted of many readings.

#include <cstddef>
#include <span>

namespace gantry::bench {

/// The middle value, or the mean of the two middle ones; 0 of nothing. Reorders `values`.
[[nodiscard]] double median(std::span<double> values);

/// The smallest value that at least `share` (0 to 1) of all do not exceed (nearest rank); 0 of
/// nothing. Reorders `values`.
[[nodiscard]] double percentile(std::span<double> values, double share);

/// What several rounds gave: their median and their extremes.
struct Summary {
  double value = 0;
  double min = 0;
  double max = 0;
  std::size_t rounds = 0;
};
[[nodiscard]] Summary summarize(std::span<double> rounds);

}  // namespace gantry::bench
