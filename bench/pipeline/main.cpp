// gantry bench pipeline: what overlap is worth when a job goes through a device as chunks.

#include "../support/program/output_file.hpp"
#include "../support/program/program.hpp"
#include "contest.hpp"
#include "findings.hpp"
#include "table.hpp"
#include "trace.hpp"

namespace gantry::bench {
namespace {

Result<Report> measure(const Settings& settings, int interrupt_descriptor) {
  const std::string& trace = settings.trace;
  if (!trace.empty())
    if (auto writable = check_output("--trace", trace); !writable)
      return Unexpected(writable.error());
  Report report{"pipeline", probe_machine(), {}, {}, {}};
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
  return run_program("pipeline", [&]() -> tl::expected<Measurement, int> {
    const auto parsed = parse_settings(argc, argv);
    if (!parsed) return tl::unexpected<int>(parsed.error());
    return [settings = *parsed](int interrupt_descriptor) -> gantry::Result<std::string> {
      const auto report = measure(settings, interrupt_descriptor);
      if (!report) return Unexpected(report.error());
      return settings.common.json ? to_json(*report) : to_text(*report);
    };
  });
}
