#pragma once  // bench/engine/turns.hpp: subjects taking turns, and what they gave.

#include "../support/run/rounds.hpp"
#include "environment.hpp"

namespace gantry::bench {

// Metrics of this benchmark, beside those of all.
inline constexpr std::string_view kCallerCpu = "caller_cpu";
inline constexpr std::string_view kHelperCpu = "helper_cpu";
inline constexpr std::string_view kTotalCpu = "total_cpu";
inline constexpr std::string_view kLatencyMax = "latency_max";
inline constexpr std::string_view kWaitingCpu = "waiting_cpu";

/// What is run in one go.
struct Experiment {
  std::string name;  ///< The case's.
  Bytes bytes = 0;
  unsigned rounds = 1;
  /// Made when it begins, dropped when it has ended.
  std::function<Result<std::vector<Entrant>>(Environment&)> enter;
};

/// In rounds. One whose turn fails is out, and skipped with the reason; but wrong data
/// (`peer_misbehaved`) ends the run, as does `interrupted`.
[[nodiscard]] Result<void> run_experiment(const Experiment& experiment, Environment& environment,
                                          cli::Progress& progress);

/// Adds the ratios that matter to the report.
void add_findings(Report& report);
void add_reshape_findings(Report& report);

// The parts: what each has to run.
[[nodiscard]] std::vector<Experiment> copy_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> queued_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> async_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> idle_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> fairness_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> waiting_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> cache_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> policy_experiments(const Environment& environment);
[[nodiscard]] std::vector<Experiment> reshape_experiments(const Environment& environment);

}  // namespace gantry::bench
