#pragma once  // bench/start/estimates.hpp: how often estimate_load() is right.

#include "settings.hpp"
#include "tools/command_line/progress.hpp"
#include "weights.hpp"

namespace gantry::bench {

inline constexpr std::string_view kEstimate = "gantry/estimate";
/// What else could be said of a load: that it takes what the one before took, or the median of all,
/// which is known behind them. Who says a fixed time cannot be right more often.
inline constexpr std::string_view kLoadBefore = "limit/load-before";
inline constexpr std::string_view kMedianOfAll = "limit/median-of-all";
inline constexpr std::string_view kWithin = "within";  ///< Share within 10 % or 40 ms.
inline constexpr unsigned kLoadsOfRound = 20;

/// Estimates, loads, and does so again, in one process for each disk.
[[nodiscard]] Result<void> run_estimates(const Settings& settings, const Weights& weights,
                                         int interrupt_descriptor, cli::Progress& progress,
                                         Report& report);
void add_estimate_findings(Report& report);

}  // namespace gantry::bench
