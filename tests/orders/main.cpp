// any_order: the oracle's scenarios, and a scheduler that decides who runs at each choice point.
//   any_order --seeds A-B [--jobs N] [--theme NAME] [--twice]
//   any_order --seconds S [--from A] [--jobs N] [--theme NAME]
//   any_order --tell SEED [--runs N]    a failing schedule, shrunk by at most N runs, as a story
// --scenario SEED: that seed's scenario, in the orders of the others.
// --processes: each role is a process in all seeds, as all can be killed then.
// --lose-rings: one wake-up of eight is lost, which must be found.
// --from today: seeds that no other day has.
// --first: ends with the first failure.
// --twice: each seed is played twice, and must do the same to the last choice.
// Exit 0: all held. docs: docs/decisions/any-order.md

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "oracle/driver.hpp"
#include "oracle/part.hpp"
#include "orders/play.hpp"
#include "orders/shrink.hpp"

namespace gantry::orders {
namespace {

using oracle::Office;
using oracle::RunEnd;
using oracle::Scenario;

struct Options {
  oracle::Plan plan;
  bool is_twice = false, is_first = false, loses_rings = false, has_only_processes = false;
  std::uint64_t scenario = 0;  // the same for all seeds; 0: each has its own
  std::uint64_t tells = 0;     // a seed
  std::uint64_t runs = 2000;
};

Scenario scenario_of(const Options& options, std::uint64_t seed) {
  Scenario scenario = options.scenario != 0 ? draw_small(options.scenario, true) : draw_small(seed);
  if (options.has_only_processes) scenario.is_one_process = false;
  return scenario;
}
Settings settings_of(const Options& options, std::uint64_t seed, const Scenario& scenario) {
  Settings settings = draw_settings(seed, scenario);
  settings.loses_rings = options.loses_rings;
  return settings;
}

void play_seed(Theatre& theatre, const Options& options, Office& office, std::uint64_t seed) {
  const Scenario scenario = scenario_of(options, seed);
  const char* const theme = oracle::kThemeNames[static_cast<std::size_t>(scenario.theme)];
  if (!options.plan.theme.empty() && options.plan.theme != theme) return;
  const Settings settings = settings_of(options, seed, scenario);
  const std::uint64_t began = oracle::now_ns();
  const Outcome outcome = theatre.play(scenario, settings, {}, options.is_twice);
  ++office.played;
  office.choices += outcome.choices;
  office.switches += outcome.switches;
  if (options.plan.is_verbose)
    oracle::say(fmt::format("seed {} ({}, {}, {}): {} choices, {} switches, {} us\n", seed, theme,
                            scenario.is_one_process ? "one process" : "processes",
                            kStrategyNames[static_cast<int>(settings.strategy)], outcome.choices,
                            outcome.switches, (oracle::now_ns() - began) / 1000));
  std::string trouble = outcome.failure;
  if (options.is_twice) {
    const Outcome again = theatre.play(scenario, settings, {}, true);
    if (again.trace != outcome.trace) trouble += difference(outcome, again);
  }
  if (trouble.empty()) return;
  ++office.failed;
  if (options.is_first) office.pulse.is_over = true;
  oracle::say(fmt::format("\nseed {} failed after {} choices, {} switches: {}\n{}{}", seed,
                          outcome.choices, outcome.switches, trouble, with_places(outcome.waits),
                          oracle::describe(scenario)));
}

// One thread runs at a time, so all of a worker's processes share a CPU: their caches are warm.
std::shared_ptr<Theatre> begin(unsigned index) {
  cpu_set_t all, one;
  ::sched_getaffinity(0, sizeof all, &all);
  const auto wanted = static_cast<int>(index) % CPU_COUNT(&all);
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && seen++ == wanted) CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof one, &one);
  ::mallopt(M_ARENA_MAX, 1);
  return std::make_shared<Theatre>();
}

int tell_seed(const Options& options) {
  const auto theatre = begin(0);
  const Scenario scenario = scenario_of(options, options.tells);
  const Failing failing = shrink(*theatre, scenario, settings_of(options, options.tells, scenario),
                                 static_cast<unsigned>(options.runs));
  const bool holds = failing.outcome.failure.empty();
  fmt::print("{}", holds ? fmt::format("seed {} holds\n", options.tells) : tell(failing));
  return holds ? 0 : 1;
}

int main_of(int count, char** words) {
  Options options;
  options.plan = oracle::read_words(
      count, words,
      {{"--twice", &options.is_twice},
       {"--first", &options.is_first},
       {"--lose-rings", &options.loses_rings},
       {"--processes", &options.has_only_processes}},
      {{"--scenario", &options.scenario}, {"--tell", &options.tells}, {"--runs", &options.runs}});
  ::setenv("GANTRY_CALIBRATE", "off", 1);
  if (options.tells != 0) return tell_seed(options);
  Office& office = oracle::make_office();
  const std::uint64_t began = oracle::now_ns();
  const RunEnd end = oracle::run_workers(
      options.plan, office, "any order", [&](unsigned index) -> oracle::PlaySeed {
        const auto theatre = begin(index);
        return [&, theatre](std::uint64_t seed) { play_seed(*theatre, options, office, seed); };
      });
  const double passed = static_cast<double>(oracle::now_ns() - began) / 1e9;
  const auto played = static_cast<double>(std::max<std::uint64_t>(1, office.played));
  fmt::print(
      "{} schedules from seed {} on, {} failed; {:.1f} s by {} workers, {:.1f} each second; "
      "{:.0f} choices and {:.0f} switches each\n",
      office.played.load(), options.plan.first, office.failed.load(), passed, options.plan.jobs,
      static_cast<double>(office.played) / passed, static_cast<double>(office.choices) / played,
      static_cast<double>(office.switches) / played);
  if (end == RunEnd::interrupted) return 130;
  return end == RunEnd::died || office.failed != 0 ? 1 : 0;
}

}  // namespace
}  // namespace gantry::orders

int main(int count, char** words) {
  try {
    return gantry::orders::main_of(count, words);
  } catch (const std::exception& trouble) {
    fmt::print(stderr, "any_order: {}\n", trouble.what());
    return 2;
  }
}
