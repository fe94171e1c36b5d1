// gantry bench overlap: what it brings to move a sharded product's data while it is computed.

#include <fmt/format.h>
#include <stdlib.h>

#include "../support/program/program.hpp"
#include "../support/report/findings.hpp"
#include "collective_contest.hpp"
#include "contest.hpp"
#include "device_contest.hpp"
#include "executor_contest.hpp"
#include "findings.hpp"
#include "simulated.hpp"

namespace gantry::bench {
namespace {

Result<void> measure_schedules(const Settings& settings, int interrupt_descriptor, Report& report) {
  const auto schedules = contestants(settings);
  if (!schedules) return Unexpected(schedules.error());
  const std::size_t cases = settings.topologies.size() * settings.ratios.size();
  cli::Progress progress("bench overlap", cases * settings.common.rounds);
  for (const Topology topology : settings.topologies)
    if (auto done = measure_topology(settings, topology, *schedules, progress, interrupt_descriptor,
                                     report);
        !done)
      return done;
  add_overlap_findings(report, settings);
  return {};
}

Result<void> measure_all_collectives(const Settings& settings, int interrupt_descriptor,
                                     Report& report) {
  cli::Progress progress("bench overlap", cases_of_collectives(settings) * settings.common.rounds);
  if (auto done = measure_collectives(settings, progress, interrupt_descriptor, report); !done)
    return done;
  add_collective_findings(report, settings);
  return {};
}

Result<void> measure_plans(const Settings& settings, int interrupt_descriptor, Report& report) {
  cli::Progress progress("bench overlap", cases_of_executor() * settings.common.rounds);
  if (auto done = measure_executor(settings, progress, interrupt_descriptor, report); !done)
    return done;
  add_executor_findings(report);
  return {};
}

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  // Where ranks show where they are, and find each other by name.
  const auto folder = ScratchDirectory::create();
  if (!folder) return Unexpected(folder.error());
  ::setenv("GANTRY_DIR", folder->path().c_str(), 1);
  auto begun = pinned_report(settings.common.bench);
  if (!begun) return begun;
  Report& report = *begun;
  for (const std::string& which : settings.cases) {
    const auto measure_them = which == "collectives" ? measure_all_collectives
                              : which == "devices"   ? measure_devices
                              : which == "executor"  ? measure_plans
                              : which == "simulated" ? measure_simulated
                                                     : measure_schedules;
    const auto done = measure_them(settings, interrupt_descriptor, report);
    if (!done) return Unexpected(done.error());
  }
  return begun;
}

std::string readable(const Settings& settings, const Report& report) {
  if (settings.cases == std::vector<std::string>{"collectives"})
    return to_table(report, kOpenMpi) + findings_text(report);
  if (settings.cases == std::vector<std::string>{"devices"})
    return to_list(report, reference_on_device) + findings_text(report);
  if (settings.cases == std::vector<std::string>{"executor"})
    return to_table(report, "by-hand") + findings_text(report);
  const std::string text =
      fmt::format("{} of {} x {} x {} over {} ranks, f32\n", to_string(settings.op.kind),
                  settings.op.m, settings.op.n, settings.op.k, settings.op.ranks);
  return text + to_table(report, kSerial) + findings_text(report);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_benchmark<Settings>(argc, argv, {"overlap", manual, measure, readable});
}
