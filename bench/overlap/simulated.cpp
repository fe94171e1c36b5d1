#include "simulated.hpp"

#include <fmt/format.h>

#include <array>
#include <gantry/plan.hpp>

#include "../support/report/findings.hpp"
#include "contest.hpp"
#include "validation.hpp"

namespace gantry::bench {
namespace {

constexpr std::array kGroups = {2u, 3u, 4u};
constexpr double kNsPerSecond = 1e9;
constexpr std::string_view kMachine = "published/mi300x-8";
constexpr unsigned kRanksOfMachine = 8;

struct Workload {
  std::int64_t m, n, k;
};
constexpr std::array kWorkloads = {Workload{131'072, 16'384, 16'384},
                                   Workload{262'144, 28'672, 8'192},
                                   Workload{16'384, 16'384, 131'072}};

Result<std::map<unsigned, PredictionErrors>> validate(const Settings& settings,
                                                      int interrupt_descriptor, Report& report) {
  const std::size_t cases = kGroups.size() * settings.topologies.size() * settings.ratios.size();
  cli::Progress progress("bench overlap", cases * settings.common.rounds);
  std::map<unsigned, PredictionErrors> by_ranks;
  for (const unsigned ranks : kGroups) {
    Settings group = settings;
    group.op.ranks = ranks;
    group.prefix = "validation ";
    const auto schedules = contestants(group);
    if (!schedules) return Unexpected(schedules.error());
    for (const Topology topology : group.topologies) {
      if (auto done =
              measure_topology(group, topology, *schedules, progress, interrupt_descriptor, report);
          !done)
        return Unexpected(done.error());
      for (const double ratio : group.ratios)
        for (const double error : errors_of(report, case_name(group, topology, ratio)))
          by_ranks[ranks].push_back(error);
    }
  }
  Ratios ratios(report);
  for (const auto& [ranks, errors] : by_ranks) {
    ratios.figure(fmt::format("{} ranks: median error of the predictions", ranks),
                  median_error(errors), Bar::at_most(kMostMedianError));
    ratios.figure(fmt::format("{} ranks: 90th percentile of it", ranks), error_90(errors),
                  Bar::at_most(kMostError90));
  }
  return by_ranks;
}

Result<void> add_simulated(const OverlapOperator& op, const ScheduleCosts& costs, Report& report) {
  const std::string name =
      fmt::format("simulated/{} {} {}x{}x{}", costs.name, to_string(op.kind), op.m, op.n, op.k);
  const auto choice = choose(op, costs);
  if (!choice) return Unexpected(choice.error());
  const auto add = [&](std::string_view subject, const Schedule& schedule) -> Result<void> {
    const auto plan = make_plan(op, schedule);
    if (!plan) return Unexpected(plan.error());
    const auto times = simulate(*plan, costs);
    if (!times) return Unexpected(times.error());
    double ns = times->seconds * kNsPerSecond;
    report.rows.push_back({name, std::string(subject), 0, kPredicted, "ns", summarize({&ns, 1})});
    return {};
  };
  if (auto done = add(kSerial, {}); !done) return done;
  if (auto done = add(kRing, {.pattern = SchedulePattern::ring}); !done) return done;
  if (auto done = add(kByCosts, choice->schedule); !done) return done;
  report.chosen.push_back({name, std::string(kByCosts), choice->decided});
  Ratios ratios(report);
  ratios.of_rows(name + ": serial / chosen-by-costs", report.find(name, kSerial, kPredicted),
                 report.find(name, kByCosts, kPredicted), Bar::none());
  return {};
}

}  // namespace

Result<void> measure_simulated(const Settings& settings, int interrupt_descriptor, Report& report) {
  const auto errors = validate(settings, interrupt_descriptor, report);
  if (!errors) return Unexpected(errors.error());
  if (const auto why = why_withheld(*errors)) {
    report.skipped.push_back({fmt::format("simulated/{}", kMachine), "withheld: " + *why});
    return {};
  }
  const auto costs = published_costs(kMachine);
  if (!costs) return Unexpected(costs.error());
  for (const Workload& sides : kWorkloads) {
    OverlapOperator op{.kind = settings.op.kind, .m = sides.m, .n = sides.n, .k = sides.k};
    op.type = {DataType::bfloat, 16, 1};
    op.ranks = kRanksOfMachine;
    if (auto done = add_simulated(op, *costs, report); !done) return done;
  }
  return {};
}

}  // namespace gantry::bench
