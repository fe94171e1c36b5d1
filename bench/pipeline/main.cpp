// gantry bench pipeline: what overlap is worth when a job goes through a device as chunks.

#include "../support/program/output_file.hpp"
#include "../support/program/program.hpp"
#include "contest.hpp"
#include "findings.hpp"
#include "table.hpp"
#include "trace.hpp"

namespace gantry::bench {
namespace {

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  const std::string& trace = settings.trace;
  if (!trace.empty())
    if (auto writable = check_output("--trace", trace); !writable)
      return Unexpected(writable.error());
  Report report{settings.common.bench, probe_machine(), {}, {}, {}};
  const auto environment = Environment::open(settings, report);
  if (!environment) return Unexpected(environment.error());
  std::vector<TracedRun> traced;
  if (auto ran = run_contest(settings, *environment, report, traced, interrupt_descriptor); !ran)
    return Unexpected(ran.error());
  if (!trace.empty())
    if (auto written = write_output("--trace", trace, to_trace(traced)); !written)
      return Unexpected(written.error());
  add_findings(report, environment->tools());
  return report;
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_benchmark<Settings>(argc, argv, {"pipeline", manual, measure, to_text});
}
