// gantry bench start: how weights, or a memory, come from a cold file to a process that starts.

#include <csignal>

#include "../support/program/program.hpp"
#include "settings.hpp"

namespace gantry::bench {
namespace {

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  Report report{settings.common.bench, probe_machine(), {}, {}, {}};
  if (auto ran = run_contest(settings, interrupt_descriptor, report); !ran)
    return Unexpected(ran.error());
  add_findings(report, settings);
  return report;
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  // A file beyond the limit of their sizes is an error like others, which leaves time to clean up.
  std::signal(SIGXFSZ, SIG_IGN);
  using namespace gantry::bench;
  return run_benchmark<Settings>(argc, argv, {"start", manual, measure, to_text});
}
