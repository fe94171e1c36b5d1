#pragma once  // fault/plan.hpp: which runs there are, and running them on all processors.

#include <vector>

#include "fault/run.hpp"

namespace gantry::fault {

struct Options {
  std::uint64_t random = 0;  ///< So many runs struck anywhere, instead of every step once.
  std::uint64_t seed = 1;
  unsigned jobs = 1;
  bool stop = false;        ///< Processes are stopped and go on, instead of being killed.
  bool first_only = false;  ///< Each step at its first pass only.
  bool spread = false;      ///< Each step at one of its passes only.
  std::string only;         ///< scenario[/victim[/step[/pass]]]
};

struct Outcome {
  bool ran = false;
  bool struck = false;
  std::uint64_t late_ns = 0;
  std::array<char, 400> trouble{};  ///< Empty: all was well.
};

/// What the victims of each scenario pass when nobody strikes them.
struct Rehearsal {
  std::size_t scenario = 0;
  Victim victim = Victim::producer;
  std::array<std::uint64_t, kSteps> passes{};
  std::uint64_t total = 0;
  std::uint64_t took_us = 0;
};

/// Runs all of `runs`, each in a worker process, `jobs` at a time. `rehearse`: what the victims
/// passed is taken down.
[[nodiscard]] std::vector<Outcome> play(const std::vector<Run>& runs, unsigned jobs,
                                        std::vector<Rehearsal>* rehearse = nullptr);

/// Of Options::only the scenario alone counts here.
[[nodiscard]] std::vector<Rehearsal> rehearse(const Options& options);
[[nodiscard]] std::vector<Run> every_step(const std::vector<Rehearsal>& rehearsals,
                                          const Options& options);
[[nodiscard]] std::vector<Run> anywhere(const std::vector<Rehearsal>& rehearsals,
                                        const Options& options);
/// "scenario/victim/step/pass"
[[nodiscard]] std::string name_of(const Run& run);

}  // namespace gantry::fault
