// gantry bench overlap: what it brings to move a sharded product's data while it is computed.

#include <fmt/format.h>

#include "../support/program/program.hpp"
#include "../support/report/findings.hpp"
#include "contest.hpp"
#include "findings.hpp"

namespace gantry::bench {
namespace {

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  auto begun = pinned_report(settings.common.bench);
  if (!begun) return begun;
  Report& report = *begun;
  const auto schedules = contestants(settings);
  if (!schedules) return Unexpected(schedules.error());
  const std::size_t cases = settings.topologies.size() * settings.ratios.size();
  Progress progress("bench overlap", cases * settings.common.rounds);
  for (const Topology topology : settings.topologies)
    if (auto done = measure_topology(settings, topology, *schedules, progress, interrupt_descriptor,
                                     report);
        !done)
      return Unexpected(done.error());
  add_overlap_findings(report, settings);
  return begun;
}

std::string readable(const Settings& settings, const Report& report) {
  std::string text =
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
