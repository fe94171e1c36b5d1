#pragma once  // bench/support/report/series.hpp: what a subject gave, and what it took.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "report.hpp"

namespace gantry::bench {

/// What one subject gave in a case, round by round.
class Series {
 public:
  void add(std::string_view metric, std::string_view unit, double figure);
  void report_to(Report& report, const std::string& case_name, const std::string& subject,
                 Bytes bytes);

 private:
  struct Line {
    std::string_view metric;
    std::string_view unit;
    std::vector<double> figures;
  };
  std::vector<Line> lines_;
};

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

}  // namespace gantry::bench
