#include "rounds.hpp"

#include <algorithm>

namespace gantry::bench {
namespace {

constexpr std::uint64_t kFewestTrips = 3;
constexpr std::uint64_t kMostTrips = 100'000;
constexpr std::uint64_t kMostWarmups = 1'000;

/// What one subject gave, round by round.
struct Series {
  std::vector<double> p50_ns;
  std::vector<double> p99_ns;
  std::vector<double> gb_per_s;
  std::vector<double> cpu_s_per_gb;

  void add(const RoundFigures& figures, Bytes bytes) {
    const auto size = static_cast<double>(bytes);
    p50_ns.push_back(figures.p50_ns);
    p99_ns.push_back(figures.p99_ns);
    gb_per_s.push_back(size / figures.p50_ns);      // bytes a nanosecond are GB a second
    cpu_s_per_gb.push_back(figures.cpu_ns / size);  // nanoseconds a byte are seconds a GB
  }
};

std::uint64_t trips_within(std::chrono::nanoseconds time, const RoundFigures& figures) {
  const double trip_ns = std::max(1.0, figures.p50_ns + figures.prepare_ns);
  return std::clamp(static_cast<std::uint64_t>(static_cast<double>(time.count()) / trip_ns),
                    kFewestTrips, kMostTrips);
}

std::uint64_t warmups_for(std::uint64_t trips) {
  return std::clamp(trips / 10, kFewestTrips, kMostWarmups);
}

/// How many trips fill a round: more and more of them, until a tenth of a round is a fair sample
/// of warm ones.
Result<std::uint64_t> calibrate(Crew& crew, std::size_t subject, const Plan& plan) {
  std::uint64_t trips = kFewestTrips;
  while (true) {
    const auto figures = crew.run(subject, {kFewestTrips, trips});
    if (!figures) return Unexpected(figures.error());
    const auto sample = trips_within(plan.round_time / 10, *figures);
    if (trips >= sample) return trips_within(plan.round_time, *figures);
    trips = sample;
  }
}

Result<std::vector<std::uint64_t>> calibrate_all(Crew& crew, std::size_t subjects,
                                                 const Plan& plan) {
  std::vector<std::uint64_t> trips;
  for (std::size_t subject = 0; subject < subjects; ++subject) {
    const auto fitting = calibrate(crew, subject, plan);
    if (!fitting) return Unexpected(fitting.error());
    trips.push_back(*fitting);
  }
  return trips;
}

void append_rows(const Case& size, const SubjectKind& kind, Series& series,
                 std::vector<Row>& rows) {
  const auto append = [&](std::string_view metric, std::string_view unit,
                          std::vector<double>& values) {
    rows.push_back({size.name, kind.name, size.bytes, metric, unit, summarize(values)});
  };
  append(kLatencyP50, "ns", series.p50_ns);
  append(kLatencyP99, "ns", series.p99_ns);
  if (!kind.carries_bytes) return;
  append(kThroughput, "GB/s", series.gb_per_s);
  append(kCpuPerGb, "s/GB", series.cpu_s_per_gb);
}

}  // namespace

Result<void> run_case(const Case& size, std::span<const SubjectKind> kinds, const Plan& plan,
                      Progress& progress, std::vector<Row>& rows) {
  auto crew = Crew::start(kinds, size, plan.cpus, plan.interrupt_descriptor);
  if (!crew) return Unexpected(crew.error());
  const auto trips = calibrate_all(*crew, kinds.size(), plan);
  if (!trips) return Unexpected(trips.error());
  std::vector<Series> series(kinds.size());
  for (unsigned round = 0; round < plan.rounds; ++round) {
    progress.step(size.name);
    for (std::size_t turn = 0; turn < kinds.size(); ++turn) {
      const auto subject = (turn + round) % kinds.size();  // nobody always follows the same one
      const auto count = (*trips)[subject];
      const auto figures = crew->run(subject, {warmups_for(count), count});
      if (!figures) return Unexpected(figures.error());
      series[subject].add(*figures, size.bytes);
    }
  }
  crew->dismiss();
  for (std::size_t i = 0; i < kinds.size(); ++i) append_rows(size, kinds[i], series[i], rows);
  return {};
}

}  // namespace gantry::bench
