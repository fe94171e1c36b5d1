#pragma once  // tools/gantry/run/process/failure.hpp: failures of stages, and which one was first.

#include "run/process/stage_process.hpp"

namespace gantry::run {

struct Failure {
  std::size_t process = 0;  ///< Its index among the run's processes.
  bool by_signal = false;
  std::string why;
  std::string hint;
};

[[nodiscard]] Failure failed_exit(std::size_t process, Exit exit);
/// `end` as Plan::unopened_end() gives it.
[[nodiscard]] Failure ended_unopened(std::size_t process, const std::string& end);
[[nodiscard]] Failure unopened_in_time(std::size_t process, const std::string& end,
                                       std::chrono::nanoseconds limit);

/// Returns the failure that caused the others, of those in the order in which they were seen. A
/// signal comes from outside, whereas a bad exit may well be the answer to a peer that is gone.
[[nodiscard]] const Failure& root_cause(const std::vector<Failure>& failures);

/// Prints the last lines of standard error of those that failed to the console. The error names the
/// root cause, and in its hint the others.
[[nodiscard]] Error report_failures(const std::vector<Failure>& failures,
                                    const std::vector<StageProcess>& processes, Console& console);

}  // namespace gantry::run
