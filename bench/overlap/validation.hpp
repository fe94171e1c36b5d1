#pragma once  // bench/overlap/validation.hpp: whether the simulator is to be believed.

#include <map>

#include "../support/report/report.hpp"

namespace gantry::bench {

inline constexpr double kMostMedianError = 0.1;
inline constexpr double kMostError90 = 0.2;

/// What predictions of schedules were off by, each in parts of what was measured.
using PredictionErrors = std::vector<double>;
[[nodiscard]] double median_error(PredictionErrors errors);
[[nodiscard]] double error_90(PredictionErrors errors);

/// Of all measured schedules of a case.
[[nodiscard]] PredictionErrors errors_of(const Report& report, const std::string& case_name);

/// Why what is simulated is not shown, by the errors of each size of a group; nothing if it is:
/// groups of 2, 3 and 4 ranks were measured, and of each the errors are within bounds.
[[nodiscard]] std::optional<std::string> why_withheld(
    const std::map<unsigned, PredictionErrors>& by_ranks);

}  // namespace gantry::bench
