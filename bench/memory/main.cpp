// gantry bench memory: what it costs to get memory that a device knows, and to give it back.

#include <fmt/format.h>

#include <filesystem>

#include "../support/program/program.hpp"
#include "../support/system/buffer.hpp"
#include "../support/system/cpus.hpp"
#include "../support/system/mapping.hpp"
#include "registrar_list.hpp"
#include "settings.hpp"
#include "team.hpp"

namespace gantry::bench {
namespace {

/// Registers a page, which tells whether there is such a device here.
class TrialRunner final : public Runner {
 public:
  static Result<std::unique_ptr<Runner>> open(const std::string& registrar) {
    const auto memory = Mapping::resident(page_bytes());
    if (!memory) return Unexpected(memory.error());
    const auto made = registrar_of(registrar);
    if (!made) return Unexpected(made.error());
    const auto registration = (*made)->register_memory(memory->bytes());
    if (!registration) return Unexpected(registration.error());
    return std::make_unique<TrialRunner>();
  }
  Result<double> run(std::uint64_t) override { return 0; }
};

/// Leaves those that work here; says of the others why they do not.
Result<void> keep_usable(Settings& settings, const ContestPlan& plan, Report& report) {
  std::vector<std::string> usable;
  for (const std::string& registrar : settings.registrars) {
    const auto failed = try_open({.case_name = "a trial",
                                  .subject = registrar,
                                  .open = [&] { return TrialRunner::open(registrar); }},
                                 plan);
    if (!failed) return Unexpected(failed.error());
    if (*failed) report.skipped.push_back({registrar, **failed});
    if (!*failed) usable.push_back(registrar);
  }
  settings.registrars = usable;
  return {};
}

std::vector<Contest> contests_of(const Settings& settings) {
  std::vector<Contest> all;
  const auto add = [&](std::string_view part, auto make) {
    if (!settings.has_part(part)) return;
    for (Contest& contest : make(settings)) all.push_back(std::move(contest));
  };
  add(kBlocks, block_contests);
  add(kScaling, scaling_contests);
  add(kTouch, touch_contests);
  if (settings.has_registrar("uring")) add(kTransfers, uring_contests);
  if (settings.has_registrar("fabric-tcp")) add(kTransfers, fabric_contests);
  return all;
}

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  auto begun = pinned_report(settings.common.bench);
  if (!begun) return begun;
  Report& report = *begun;
  settings.cpus = allowed_cpus(*report.cpus);
  std::error_code failed;
  settings.directory = std::filesystem::temp_directory_path(failed).string();
  if (failed)
    return Unexpected({Code::not_found, fmt::format("temporary directory: {}", failed.message()),
                       "set TMPDIR to a folder you can write to"});
  const ContestPlan plan{.cpu = report.cpus->requester,
                         .interrupt_descriptor = interrupt_descriptor};
  const auto kept = keep_usable(settings, plan, report);
  if (!kept) return Unexpected(kept.error());
  const auto contests = contests_of(settings);
  if (contests.empty() && report.skipped.empty())
    return Unexpected({Code::invalid_argument, "none of the --parts is of these --registrar",
                       "transfers are of uring and fabric-tcp"});
  std::size_t steps = 0;
  for (const Contest& contest : contests) steps += contest.rounds;
  cli::Progress progress("bench " + report.bench, steps);
  for (const Contest& contest : contests) {
    const auto ran = run_contest(contest, plan, progress, report);
    if (!ran) return Unexpected(ran.error());
  }
  add_findings(report, settings);
  return begun;
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_benchmark<Settings>(argc, argv, {"memory", manual, measure, to_text});
}
