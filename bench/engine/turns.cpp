#include "turns.hpp"

namespace gantry::bench {

Result<void> run_experiment(const Experiment& experiment, Environment& environment,
                            cli::Progress& progress) {
  auto entrants = experiment.enter(environment);
  if (!entrants) return Unexpected(entrants.error());
  Rounds rounds{experiment.name, experiment.bytes, experiment.rounds, std::move(*entrants)};
  rounds.failed = [&](std::size_t i, const Error& error) {
    const bool is_defect = error.code == Code::interrupted || error.code == Code::peer_misbehaved;
    return skip_unless(is_defect, environment.report(), rounds.entrants[i].subject, rounds.name,
                       error);
  };
  rounds.interrupt_descriptor = environment.interrupt_descriptor();
  return run_rounds(rounds, progress, environment.report());
}

}  // namespace gantry::bench
