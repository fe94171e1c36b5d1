#pragma once  // bench/support/run/rounds.hpp: subjects taking turns, round by round.

#include <functional>

#include "../report/series.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

/// One who takes turns; a turn adds what it measured.
struct Entrant {
  std::string subject;
  std::function<Result<void>(Series&)> turn;
  std::string case_name{};  ///< Of its rows, where that is not the rounds' name.
};

/// A case whose entrants are measured at the same time.
struct Rounds {
  std::string name;
  Bytes bytes = 0;
  unsigned count = 1;
  std::vector<Entrant> entrants{};
  /// Told whose turn failed, and why. An error ends the run; otherwise that one is out, without a
  /// row.
  std::function<Result<void>(std::size_t entrant, const Error&)> failed{};
  int interrupt_descriptor = -1;
};

/// In each round everyone has a turn; who begins moves on by one, so that nobody always follows the
/// same one. Steps `progress` once a round and appends what they gave to the report. Errors:
/// `interrupted`; those of `failed`.
[[nodiscard]] Result<void> run_rounds(const Rounds& rounds, cli::Progress& progress,
                                      Report& report);

/// What mostly becomes of who failed: it is skipped with the reason. Where that is no reason to
/// leave it out, the error names it and comes back.
[[nodiscard]] Result<void> skip_unless(bool is_defect, Report& report, const std::string& subject,
                                       const std::string& case_name, Error error);

/// Appends a figure that is found once, or skips the subject with the reason. Errors:
/// `interrupted`.
[[nodiscard]] Result<void> report_once(Report& report, const std::string& case_name,
                                       const std::string& subject, Bytes bytes,
                                       std::string_view metric, Result<double> figure);

/// How many trips fill `time`, within limits: more and more of them, until a tenth of it is a fair
/// sample of warm ones. `trip_ns` makes so many and gives what one of them takes.
[[nodiscard]] Result<std::uint64_t> trips_filling(
    std::chrono::nanoseconds time, std::uint64_t fewest, std::uint64_t most,
    const std::function<Result<double>(std::uint64_t)>& trip_ns);

}  // namespace gantry::bench
