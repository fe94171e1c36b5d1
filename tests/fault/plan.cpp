#include "fault/plan.hpp"

#include <fmt/format.h>

#include <random>
#include <set>

namespace gantry::fault {

std::string name_of(const Run& run) {
  std::string where = "unstruck";
  if (run.arm.after_us != 0) where = fmt::format("after-{}us", run.arm.after_us);
  if (run.arm.pass != 0)
    where = fmt::format("{}/{}",
                        run.arm.step < 0 ? std::string_view("any")
                                         : kStepNames[static_cast<std::size_t>(run.arm.step)],
                        run.arm.pass);
  const Scenario& scenario = kScenarios[run.scenario];
  return fmt::format("{}/{}/{}", scenario.name, role_name(scenario, run.victim), where);
}

std::vector<Rehearsal> rehearse(const Options& options) {
  const std::string wanted = options.only.substr(0, options.only.find('/'));
  std::vector<Run> runs;
  for (std::size_t scenario = 0; scenario < kScenarios.size(); ++scenario)
    for (const Victim victim : {Victim::producer, Victim::consumer})
      if (kScenarios[scenario].name.starts_with(wanted))
        runs.push_back({.scenario = scenario, .victim = victim, .arm = {}});
  std::vector<Rehearsal> rehearsals;
  const auto outcomes = play(runs, options.jobs, &rehearsals);
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!outcomes[i].ran || outcomes[i].trouble[0] != 0)
      throw Trouble(fmt::format("{}: {}", name_of(runs[i]), outcomes[i].trouble.data()));
  return rehearsals;
}

// The first time, one in the middle and the last: with the second message other things are there
// than with the first, and with the last others again. Spread, each scenario has one of the three,
// and a step all of them in some scenario.
std::vector<Run> every_step(const std::vector<Rehearsal>& rehearsals, const Options& options) {
  std::vector<Run> runs;
  for (const Rehearsal& one : rehearsals)
    for (std::size_t step = 0; step < kSteps; ++step) {
      const std::uint64_t passes = one.passes[step];
      if (passes == 0) continue;
      std::set<std::uint64_t> chosen{1, passes / 2 + 1, passes};
      if (options.first_only) chosen = {1};
      if (options.spread)
        chosen = {*std::next(chosen.begin(),
                             static_cast<std::ptrdiff_t>((one.scenario + step) % chosen.size()))};
      for (const std::uint64_t pass : chosen)
        runs.push_back({.scenario = one.scenario,
                        .victim = one.victim,
                        .arm = {.step = static_cast<int>(step),
                                .pass = pass,
                                .signal = options.stop ? SIGSTOP : SIGKILL}});
    }
  return runs;
}

std::vector<Run> anywhere(const std::vector<Rehearsal>& rehearsals, const Options& options) {
  std::mt19937_64 random(options.seed);
  const auto up_to = [&](std::uint64_t most) { return 1 + random() % most; };
  std::vector<Run> runs;
  for (std::uint64_t i = 0; i < options.random; ++i) {
    const Rehearsal& one = rehearsals[random() % rehearsals.size()];
    Run run{.scenario = one.scenario, .victim = one.victim, .arm = {}};
    run.arm.signal = options.stop ? SIGSTOP : SIGKILL;
    if (random() % 2 == 0)
      run.arm.pass = up_to(one.total);
    else
      run.arm.after_us = up_to(one.took_us);
    runs.push_back(run);
  }
  return runs;
}

}  // namespace gantry::fault
