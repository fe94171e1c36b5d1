#include "rounds.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gantry::bench {
namespace {

constexpr std::uint64_t kFewestTrips = 3;
constexpr std::uint64_t kMostTrips = 100'000;
constexpr std::uint64_t kMostWarmups = 1'000;

/// What one subject gave, round by round.
struct Series {
  std::uint64_t trips = 0;  // of a round; 0: not known yet
  std::vector<double> p50_ns{};
  std::vector<double> p99_ns{};
  std::vector<double> p999_ns{};
  std::vector<double> send_p50_ns{};
  std::vector<double> send_p99_ns{};
  std::vector<double> send_cpu_ns{};
  std::vector<double> one_way_ns{};
  std::vector<double> compute_speed{};
  std::vector<double> gb_per_s{};
  std::vector<double> cpu_s_per_gb{};

  void add(const RoundFigures& figures, Bytes bytes) {
    const auto size = static_cast<double>(bytes);
    p50_ns.push_back(figures.p50_ns);
    p99_ns.push_back(figures.p99_ns);
    p999_ns.push_back(figures.p999_ns);
    send_p50_ns.push_back(figures.send.p50_ns);
    send_p99_ns.push_back(figures.send.p99_ns);
    send_cpu_ns.push_back(figures.send.cpu_p50_ns);
    compute_speed.push_back(figures.compute_speed);
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
Result<std::uint64_t> calibrate(ProcessGroup& group, std::size_t subject, const Plan& plan) {
  std::uint64_t trips = kFewestTrips;
  while (true) {
    const auto figures = group.run(subject, {kFewestTrips, trips});
    if (!figures) return Unexpected(figures.error());
    const auto sample = trips_within(plan.round_time / 10, *figures);
    if (trips >= sample) return trips_within(plan.round_time, *figures);
    trips = sample;
  }
}

/// One subject's turn; `in_group` is its number there.
Result<void> take_turn(ProcessGroup& group, std::size_t in_group, const SubjectKind& kind,
                       const Case& size, const Plan& plan, Series& series) {
  if (series.trips == 0) {
    const auto fitting = calibrate(group, in_group, plan);
    if (!fitting) return Unexpected(fitting.error());
    series.trips = *fitting;
  }
  const auto figures = group.run(in_group, {warmups_for(series.trips), series.trips});
  if (!figures) return Unexpected(figures.error());
  series.add(*figures, size.bytes);
  if (!kind.has_responder || size.in_flight > 1) return {};
  const auto stamped_trips =
      std::clamp(series.trips / 4, kFewestTrips, static_cast<std::uint64_t>(Stamps::kMost));
  const auto stamped = group.run(in_group, {kFewestTrips, stamped_trips, true});
  if (!stamped) return Unexpected(stamped.error());
  series.one_way_ns.push_back(stamped->one_way_ns);
  return {};
}

void append_rows(const Case& size, const SubjectKind& kind, Series& series,
                 std::vector<Row>& rows) {
  const auto append = [&](std::string_view metric, std::string_view unit,
                          std::vector<double>& values) {
    if (!values.empty())
      rows.push_back({size.name, kind.name, size.bytes, metric, unit, summarize(values)});
  };
  if (size.in_flight > 1) {
    append(kMessageTime, "ns", series.p50_ns);
  } else {
    append(kLatencyP50, "ns", series.p50_ns);
    append(kLatencyP99, "ns", series.p99_ns);
    append(kLatencyP999, "ns", series.p999_ns);
    append(kOneWayP50, "ns", series.one_way_ns);
  }
  if (size.times_send) {
    append(kSendP50, "ns", series.send_p50_ns);
    append(kSendP99, "ns", series.send_p99_ns);
    append(kSendCpuP50, "ns", series.send_cpu_ns);
  }
  if (size.computes) append(kComputeSpeed, "1", series.compute_speed);
  if (!kind.carries_bytes || !size.reads) return;
  append(kThroughput, "GB/s", series.gb_per_s);
  append(kCpuPerGb, "s/GB", series.cpu_s_per_gb);
}

/// A peer is named once for a reason, whatever the cases in which it was lost for it.
void note_loss(Report& report, const SubjectKind& kind, const Error& loss) {
  const std::string reason = to_string(loss);
  const auto same = [&](const Skipped& other) { return other.subject == kind.name; };
  if (std::none_of(report.skipped.begin(), report.skipped.end(), same))
    report.skipped.push_back({kind.name, reason});
}

/// The rounds of one case, with all crews at once or one at a time.
class Rounds {
 public:
  Rounds(const Case& size, std::vector<SubjectKind> kinds, const Plan& plan, Report& report)
      : size_(size),
        kinds_(std::move(kinds)),
        plan_(plan),
        report_(report),
        series_(kinds_.size()),
        is_lost_(kinds_.size(), false) {
    double needed = 0;
    for (const SubjectKind& kind : kinds_) needed += bytes_needed(kind, size_);
    all_at_once_ = needed <= static_cast<double>(plan_.free_bytes);
  }

  Result<void> run(Progress& progress) {
    std::optional<ProcessGroup> group;
    if (all_at_once_) {
      auto started = ProcessGroup::start(kinds_, size_, plan_.cpus, plan_.interrupt_descriptor);
      if (!started) return Unexpected(started.error());
      group.emplace(std::move(*started));
    }
    for (unsigned round = 0; round < plan_.rounds; ++round) {
      progress.step(size_.name);
      for (std::size_t turn = 0; turn < kinds_.size(); ++turn) {
        const auto subject = (turn + round) % kinds_.size();  // nobody always follows the same one
        const auto ran = group ? turn_of(subject, *group, subject) : turn_alone(subject);
        if (!ran) return ran;
      }
    }
    if (group) group->dismiss();
    for (std::size_t i = 0; i < kinds_.size(); ++i)
      if (!is_lost_[i]) append_rows(size_, kinds_[i], series_[i], report_.rows);
    return {};
  }

 private:
  Result<void> turn_of(std::size_t subject, ProcessGroup& group, std::size_t in_group) {
    if (is_lost_[subject]) return {};
    auto done = take_turn(group, in_group, kinds_[subject], size_, plan_, series_[subject]);
    const Error* const loss = group.loss_of(in_group);
    if (loss == nullptr) return done;
    is_lost_[subject] = true;
    note_loss(report_, kinds_[subject], *loss);
    return {};
  }

  Result<void> turn_alone(std::size_t subject) {
    if (is_lost_[subject]) return {};
    auto group =
        ProcessGroup::start({&kinds_[subject], 1}, size_, plan_.cpus, plan_.interrupt_descriptor);
    if (!group) return Unexpected(group.error());
    const auto done = turn_of(subject, *group, 0);
    group->dismiss();
    return done;
  }

  const Case& size_;
  std::vector<SubjectKind> kinds_;
  const Plan& plan_;
  Report& report_;
  std::vector<Series> series_;
  std::vector<bool> is_lost_;
  bool all_at_once_ = true;
};

}  // namespace

double bytes_needed(const SubjectKind& kind, const Case& size) {
  const unsigned messages = kind.buffers * size.in_flight + size.readers - 1;
  return static_cast<double>(messages) * static_cast<double>(size.bytes);
}

Result<void> run_case(const Case& size, std::span<const SubjectKind> kinds, const Plan& plan,
                      Progress& progress, Report& report) {
  std::vector<SubjectKind> able;
  for (const SubjectKind& kind : kinds)
    if (kind.takes(size)) able.push_back(kind);
  return Rounds(size, std::move(able), plan, report).run(progress);
}

}  // namespace gantry::bench
