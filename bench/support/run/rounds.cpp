#include "rounds.hpp"

#include <fmt/format.h>

#include "../system/interrupt.hpp"

namespace gantry::bench {

Result<void> run_rounds(const Rounds& rounds, cli::Progress& progress, Report& report) {
  const std::vector<Entrant>& entrants = rounds.entrants;
  std::vector<std::optional<Series>> given(entrants.size(), Series{});  // none: it is out
  for (unsigned round = 0; round < rounds.count; ++round) {
    progress.step(rounds.name);
    for (std::size_t turn = 0; turn < entrants.size(); ++turn) {
      const std::size_t at = (turn + round) % entrants.size();
      if (!given[at]) continue;
      if (auto going = check_interrupt(rounds.interrupt_descriptor); !going) return going;
      const auto done = entrants[at].turn(*given[at]);
      if (done) continue;
      if (auto out = rounds.failed(at, done.error()); !out) return out;
      given[at].reset();
    }
  }
  for (std::size_t at = 0; at < entrants.size(); ++at) {
    const Entrant& who = entrants[at];
    if (given[at])
      given[at]->report_to(report, who.case_name.empty() ? rounds.name : who.case_name, who.subject,
                           rounds.bytes);
  }
  return {};
}

Result<void> skip_unless(bool is_defect, Report& report, const std::string& subject,
                         const std::string& case_name, Error error) {
  const std::string who = fmt::format("{} in {}", subject, case_name);
  if (is_defect) {
    if (error.code != Code::interrupted) error.message = fmt::format("{}: {}", who, error.message);
    return Unexpected(std::move(error));
  }
  report.skipped.push_back({who, to_string(error)});
  return {};
}

Result<void> report_once(Report& report, const std::string& case_name, const std::string& subject,
                         Bytes bytes, std::string_view metric, Result<double> figure) {
  if (!figure)
    return skip_unless(figure.error().code == Code::interrupted, report, subject, case_name,
                       figure.error());
  report.rows.push_back({case_name, subject, bytes, metric, "1", summarize({&*figure, 1})});
  return {};
}

Result<std::uint64_t> trips_filling(std::chrono::nanoseconds time, std::uint64_t fewest,
                                    std::uint64_t most,
                                    const std::function<Result<double>(std::uint64_t)>& trip_ns) {
  const auto fitting = [&](std::chrono::nanoseconds within, double trip) {
    const double trips = static_cast<double>(within.count()) / std::max(0.1, trip);
    return std::clamp(static_cast<std::uint64_t>(trips), fewest, most);
  };
  for (std::uint64_t trips = fewest;;) {
    const auto trip = trip_ns(trips);
    if (!trip) return Unexpected(trip.error());
    const std::uint64_t sample = fitting(time / 10, *trip);
    if (trips >= sample) return fitting(time, *trip);
    trips = sample;
  }
}

}  // namespace gantry::bench
