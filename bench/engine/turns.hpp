#pragma once  // bench/engine/turns.hpp: subjects taking turns, and what they gave.

#include <algorithm>
#include <functional>

#include "laboratory.hpp"

namespace gantry::bench {

// Metrics of this benchmark, beside those of all.
inline constexpr std::string_view kCallerCpu = "caller_cpu";
inline constexpr std::string_view kHelperCpu = "helper_cpu";
inline constexpr std::string_view kTotalCpu = "total_cpu";
inline constexpr std::string_view kLatencyMax = "latency_max";
inline constexpr std::string_view kWaitingCpu = "waiting_cpu";

/// One case's figures, round by round.
class Series {
 public:
  void add(const std::string& subject, std::string_view metric, std::string_view unit,
           double figure);
  void forget(const std::string& subject);
  void report_to(Report& report, const std::string& case_name, Bytes bytes);

 private:
  struct Line {
    std::string subject;
    std::string_view metric;
    std::string_view unit;
    std::vector<double> figures;
  };
  std::vector<Line> lines_;
};

/// One who takes turns; a turn adds what it measured to the series under `subject`.
struct Entrant {
  std::string subject;
  std::function<Result<void>(Series&)> turn;
};

/// What is run in one go.
struct Experiment {
  std::string name;  ///< The case's.
  Bytes bytes = 0;
  unsigned rounds = 1;
  /// Made when it begins, dropped when it has ended.
  std::function<Result<std::vector<Entrant>>(Laboratory&)> enter;
};

/// In each round everyone has a turn. One whose turn fails is out, and skipped with the reason; but
/// wrong data (`peer_misbehaved`) ends the run, as does `interrupted`.
[[nodiscard]] Result<void> run_experiment(const Experiment& experiment, Laboratory& lab,
                                          Progress& progress);

/// Wall and CPU time of something the calling thread does. Of the helpers: every other thread.
struct Spent {
  double wall_ns = 0;
  double caller_ns = 0;
  double helper_ns = 0;
};
class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;

  Stopwatch() noexcept
      : process_(process_cpu_time()), thread_(thread_cpu_time()), wall_(Clock::now()) {}

  /// The CPU clocks are read in the order in which they were: what reading them costs cancels out.
  [[nodiscard]] Spent spent() const noexcept {
    const double wall = ns(Clock::now() - wall_);
    const double process = ns(process_cpu_time() - process_);
    const double caller = ns(thread_cpu_time() - thread_);
    return {wall, caller, std::max(0.0, process - caller)};
  }
  [[nodiscard]] static double ns(std::chrono::nanoseconds time) noexcept {
    return static_cast<double>(time.count());
  }

 private:
  std::chrono::nanoseconds process_;
  std::chrono::nanoseconds thread_;
  Clock::time_point wall_;
};

/// Adds the ratios that matter to the report.
void add_findings(Report& report);

// The parts: what each has to run.
[[nodiscard]] std::vector<Experiment> copy_experiments(const Laboratory& lab);
[[nodiscard]] std::vector<Experiment> queued_experiments(const Laboratory& lab);
[[nodiscard]] std::vector<Experiment> async_experiments(const Laboratory& lab);
[[nodiscard]] std::vector<Experiment> idle_experiments(const Laboratory& lab);
[[nodiscard]] std::vector<Experiment> fairness_experiments(const Laboratory& lab);
[[nodiscard]] std::vector<Experiment> waiting_experiments(const Laboratory& lab);
[[nodiscard]] std::vector<Experiment> cache_experiments(const Laboratory& lab);
[[nodiscard]] std::vector<Experiment> policy_experiments(const Laboratory& lab);

}  // namespace gantry::bench
