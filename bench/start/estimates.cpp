#include "estimates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <gantry/image.hpp>

#include "../support/report/findings.hpp"
#include "../support/report/statistics.hpp"
#include "starts.hpp"

namespace gantry::bench {
namespace {

struct Load {
  double estimated_ns = 0;
  double took_ns = 0;
};

bool is_within(double said_ns, double took_ns) noexcept {
  constexpr double kShare = 0.1, kLeastNs = 40e6;
  return std::abs(said_ns - took_ns) <= std::max(kLeastNs, kShare * took_ns);
}

/// `p50_ns` is the estimate, `p99_ns` what the load took behind it.
Result<Answer> estimate_and_load(const std::string& path) {
  const auto image = Image::open(path);
  if (!image) return Unexpected(image.error());
  auto io = best_file_io();
  if (!io) return Unexpected(io.error());
  const LoadOptions options{.file_io = *std::move(io)};
  const auto estimate = estimate_load(*image, options);
  if (!estimate) return Unexpected(estimate.error());
  const Stopwatch watch;
  auto loading = load_image(*image, options);
  if (!loading) return Unexpected(loading.error());
  if (auto done = loading->wait(); !done) return Unexpected(done.error());
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.p50_ns = Stopwatch::ns(estimate->time);
  answer.p99_ns = watch.spent().wall_ns;
  return answer;
}

Result<std::vector<Load>> load_often(const Weights& weights, const std::string& name,
                                     const DiskLimit* limit, unsigned loads,
                                     int interrupt_descriptor) {
  ProcessGroup group(interrupt_descriptor);
  const std::string path = weights.path(WeightFile::plain);
  const Role role{fmt::format("{} of {}", kEstimate, name), kAnyCpu, [&](Link& link) {
                    serve(
                        link, limit, [] { return Result<void>(); },
                        [&](const Command&) { return estimate_and_load(path); });
                  }};
  if (auto added = group.add(Party{{role}}, MayFail::never); !added)
    return Unexpected(added.error());
  if (auto ready = group.await_ready(); !ready) return Unexpected(ready.error());
  std::vector<Load> all;
  for (unsigned i = 0; i < loads; ++i) {
    const auto figures = group.run(0, {0, 1});
    if (!figures) return Unexpected(figures.error());
    all.push_back({figures->p50_ns, figures->p99_ns});
  }
  group.dismiss();
  return all;
}

/// Round by round; what was known before all rounds or is only known behind them counts as well.
void add_rows(Report& report, const std::string& name, Bytes bytes,
              const std::vector<Load>& loads) {
  std::vector<double> all;
  for (const Load& load : loads) all.push_back(load.took_ns);
  const double middle = median(all);
  Series ours, before, fixed;
  for (std::size_t from = 0; from < loads.size(); from += kLoadsOfRound) {
    std::vector<double> times;
    std::array<double, 3> right{};
    for (std::size_t i = from; i < from + kLoadsOfRound; ++i) {
      const double took = loads[i].took_ns;
      times.push_back(took);
      right[0] += is_within(loads[i].estimated_ns, took) ? 1 : 0;
      right[1] += i > 0 && is_within(loads[i - 1].took_ns, took) ? 1 : 0;
      right[2] += is_within(middle, took) ? 1 : 0;
    }
    const double time = median(times);
    ours.add(kLatencyP50, "ns", time);
    ours.add(kThroughput, "GB/s", static_cast<double>(bytes) / time);
    ours.add(kWithin, "1", right[0] / kLoadsOfRound);
    before.add(kWithin, "1", right[1] / (from == 0 ? kLoadsOfRound - 1 : kLoadsOfRound));
    fixed.add(kWithin, "1", right[2] / kLoadsOfRound);
  }
  ours.report_to(report, name, std::string(kEstimate), bytes);
  before.report_to(report, name, std::string(kLoadBefore), bytes);
  fixed.report_to(report, name, std::string(kMedianOfAll), bytes);
}

}  // namespace

Result<void> run_estimates(const Settings& settings, const Weights& weights,
                           int interrupt_descriptor, cli::Progress& progress, Report& report) {
  const auto name_of = [&](const Disk& disk) {
    return case_of(kEstimates.case_name, weights.bytes(), disk);
  };
  const unsigned loads = kLoadsOfRound * settings.common.rounds;
  return run_disks(settings, weights.folder(), report, name_of,
                   [&](const Disk& disk, const DiskLimit* limit) -> Result<void> {
                     progress.step(name_of(disk));
                     const auto all =
                         load_often(weights, name_of(disk), limit, loads, interrupt_descriptor);
                     if (!all) return Unexpected(all.error());
                     add_rows(report, name_of(disk), weights.bytes(), *all);
                     return {};
                   });
}

void add_estimate_findings(Report& report) {
  Ratios ratios(report);
  for (const std::string& name : cases_with(report, kEstimates.case_name)) {
    const auto share = [&](std::string_view subject, const Bar& bar) {
      if (const Row* const row = report.find(name, subject, kWithin))
        ratios.figure(fmt::format("{}: {}: share within 10 % or 40 ms", name, subject),
                      row->summary.value, bar);
    };
    share(kEstimate, Bar::at_least(0.95));
    share(kLoadBefore, Bar::none());
    share(kMedianOfAll, Bar::none());
  }
}

}  // namespace gantry::bench
