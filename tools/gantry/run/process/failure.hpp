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
/// A reader that has joined gets an error; one that has not would wait for ever.
[[nodiscard]] Failure left_unclosed(std::size_t process, const std::string& output);
[[nodiscard]] Failure unopened_in_time(std::size_t process, const std::string& end,
                                       std::chrono::nanoseconds limit);

/// Prints the last lines of standard error of those that failed to the console. The error names the
/// root cause, and in its hint the others; its own last lines are given, too.
[[nodiscard]] Error report_failures(const std::vector<Failure>& failures,
                                    const std::vector<StageProcess>& processes, const Plan& plan,
                                    Console& console, std::vector<std::string>& last_words);

}  // namespace gantry::run
