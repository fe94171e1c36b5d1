// gantry bench engine: what moves cost, by whom, and whether the policy picks the right one.

#include "../support/program/program.hpp"
#include "../support/report/findings.hpp"
#include "instructions.hpp"
#include "movers.hpp"
#include "reshape/names.hpp"

namespace gantry::bench {
namespace {

std::vector<Experiment> experiments_of(const Environment& environment) {
  std::vector<Experiment> all;
  const auto add = [&](std::string_view part, auto make) {
    if (!environment.settings().has_part(part)) return;
    for (Experiment& experiment : make(environment)) all.push_back(std::move(experiment));
  };
  add(kCopy, copy_experiments);
  add(kQueued, queued_experiments);
  add(kAsync, async_experiments);
  add(kIdle, idle_experiments);
  add(kFairness, fairness_experiments);
  add(kWaiting, waiting_experiments);
  add(kCache, cache_experiments);
  add(kPolicy, policy_experiments);
  add(kReshape, reshape_experiments);
  return all;
}

Result<void> run_parts(const Settings& settings, Report& report, int interrupt_descriptor) {
  auto environment = Environment::open(settings, report, interrupt_descriptor);
  if (!environment) return Unexpected(environment.error());
  const auto experiments = experiments_of(**environment);
  std::size_t steps = 0;
  for (const Experiment& experiment : experiments) steps += experiment.rounds;
  cli::Progress progress("bench " + report.bench, steps);
  for (const Experiment& experiment : experiments)
    if (auto ran = run_experiment(experiment, **environment, progress); !ran) return ran;
  return {};
}

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  auto begun = pinned_report(settings.common.bench);
  if (!begun) return begun;
  Report& report = *begun;
  const auto done = settings.counts_instructions
                        ? count_instructions(settings, report, interrupt_descriptor)
                        : run_parts(settings, report, interrupt_descriptor);
  if (!done) return Unexpected(done.error());
  add_findings(report);
  add_reshape_findings(report);
  return begun;
}

std::string to_text(const Settings&, const Report& report) {
  const auto reference = [&](const std::string& name) {
    for (const std::string_view subject : {kMemcpy, kCopyThenConvert})
      if (report.find(name, subject, kLatencyP50) != nullptr) return std::string(subject);
    return std::string();
  };
  return machine_line(report) + to_list(report, reference) + skipped_lines(report) +
         findings_text(report);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  if (argc > 1 && argv[1] == kCounted)
    return run_counted({argv + 2, static_cast<std::size_t>(argc - 2)});
  return run_benchmark<Settings>(argc, argv, {"engine", manual, measure, to_text});
}
