#include "turns.hpp"

#include <fmt/format.h>

namespace gantry::bench {

namespace {

bool ends_the_run(const Error& error) noexcept {
  return error.code == Code::interrupted || error.code == Code::peer_misbehaved;
}

Error named(Error error, const std::string& subject, const std::string& case_name) {
  if (error.code != Code::interrupted)
    error.message = fmt::format("{} in {}: {}", subject, case_name, error.message);
  return error;
}

/// One turn; takes `entrant` out when it fails.
Result<void> take_turn(Entrant& entrant, const Experiment& experiment, Series& series,
                       Environment& environment) {
  if (auto going = environment.check_interrupt(); !going) return going;
  const auto done = entrant.turn(series);
  if (done) return {};
  if (ends_the_run(done.error()))
    return Unexpected(named(done.error(), entrant.subject, experiment.name));
  series.forget(entrant.subject);
  environment.report().skipped.push_back(
      {fmt::format("{} in {}", entrant.subject, experiment.name), to_string(done.error())});
  entrant.turn = {};
  return {};
}

}  // namespace

Result<void> run_experiment(const Experiment& experiment, Environment& environment,
                            Progress& progress) {
  progress.step(experiment.name);
  auto entrants = experiment.enter(environment);
  if (!entrants) return Unexpected(entrants.error());
  Series series;
  for (unsigned round = 0; round < experiment.rounds; ++round) {
    if (round > 0) progress.step(experiment.name);
    for (std::size_t turn = 0; turn < entrants->size(); ++turn) {
      Entrant& entrant = (*entrants)[(turn + round) % entrants->size()];
      if (!entrant.turn) continue;
      const auto done = take_turn(entrant, experiment, series, environment);
      if (!done) return done;
    }
  }
  series.report_to(environment.report(), experiment.name, experiment.bytes);
  return {};
}

}  // namespace gantry::bench
