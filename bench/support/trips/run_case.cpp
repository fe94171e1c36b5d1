#include "run_case.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../run/rounds.hpp"
#include "ends.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kFewestTrips = 3;
constexpr std::uint64_t kMostTrips = 100'000;
constexpr std::uint64_t kMostWarmups = 1'000;

/// What the ends share is dropped with the roles.
Result<Party> party_of(const SubjectKind& kind, const Case& what, const CpuPair& cpus) {
  auto made = kind.make(what);
  if (!made) return Unexpected(made.error());
  const std::shared_ptr<Subject> subject(std::move(*made));
  Party party{{}, subject->company()};
  const auto add = [&](std::string_view end, const Post& post, const auto& run) {
    party.roles.push_back({fmt::format("{}: the {} of {}", what.name, end, kind.name), post.cpu,
                           [subject, post, run](Link& link) {
                             if (auto stayed = subject->become(post, link.descriptor()); stayed)
                               run(link);
                             else
                               link.send(Answer::failure(to_string(stayed.error())));
                           }});
  };
  add("requester", {Post::kAsks, cpus.requester}, [subject, what](Link& link) {
    run_requester(link, [&] { return subject->open_requester(); }, what);
  });
  const int readers = kind.has_responder ? static_cast<int>(what.readers) : 0;
  for (int reader = 0; reader < readers; ++reader)
    add("responder", {reader, reader_cpu(cpus, reader)}, [subject, reader](Link& link) {
      run_responder(link, [&] { return subject->open_responder(reader); });
    });
  return party;
}

/// The trips that count, and how many bytes crossed the wire for one of payload meanwhile.
Result<RoundFigures> run_counted_trips(ProcessGroup& group, std::size_t in_group, const Case& what,
                                       const Plan& plan, const Command& command, Series& series) {
  if (!plan.wire_bytes) return group.run(in_group, command);
  const auto before = plan.wire_bytes();
  if (!before) return Unexpected(before.error());
  auto figures = group.run(in_group, command);
  if (!figures) return figures;
  const auto after = plan.wire_bytes();
  if (!after) return Unexpected(after.error());
  const auto payload = static_cast<double>((command.warmups + command.trips) * what.bytes);
  series.add(kWireBytes, "1", static_cast<double>(*after - *before) / payload);
  return figures;
}

/// One subject's turn. How many trips it makes is found out in the first one.
Result<void> take_turn(ProcessGroup& group, std::size_t in_group, const SubjectKind& kind,
                       const Case& what, const Plan& plan, std::uint64_t& trips, Series& series) {
  if (trips == 0) {
    const auto fitting = trips_filling(
        plan.round_time, kFewestTrips, kMostTrips, [&](std::uint64_t some) -> Result<double> {
          const auto figures = group.run(in_group, {kFewestTrips, some});
          if (!figures) return Unexpected(figures.error());
          return figures->p50_ns + figures->prepare_ns;
        });
    if (!fitting) return Unexpected(fitting.error());
    trips = *fitting;
  }
  const Command command{std::clamp(trips / 10, kFewestTrips, kMostWarmups), trips};
  const auto figures = run_counted_trips(group, in_group, what, plan, command, series);
  if (!figures) return Unexpected(figures.error());
  const bool is_queued = what.in_flight > 1;
  series.add(is_queued ? kMessageTime : kLatencyP50, "ns", figures->p50_ns);
  if (!is_queued) series.add(kLatencyP99, "ns", figures->p99_ns);
  if (!is_queued) series.add(kLatencyP999, "ns", figures->p999_ns);
  if (kind.has_responder && !is_queued) {
    const auto stamped_trips =
        std::clamp(trips / 4, kFewestTrips, static_cast<std::uint64_t>(Stamps::kMost));
    const auto stamped = group.run(in_group, {kFewestTrips, stamped_trips, true});
    if (!stamped) return Unexpected(stamped.error());
    series.add(kOneWayP50, "ns", stamped->one_way_ns);
  }
  if (what.times_send) {
    series.add(kSendP50, "ns", figures->send.p50_ns);
    series.add(kSendP99, "ns", figures->send.p99_ns);
    series.add(kSendCpuP50, "ns", figures->send.cpu_p50_ns);
  }
  if (what.computes) series.add(kComputeSpeed, "1", figures->compute_speed);
  if (!kind.carries_bytes || !what.reads) return {};
  const auto bytes = static_cast<double>(what.bytes);
  series.add(kThroughput, "GB/s", bytes / figures->p50_ns);  // bytes a ns are GB a second
  series.add(kCpuPerGb, "s/GB", figures->cpu_ns / bytes);    // ns a byte are seconds a GB
  return {};
}

/// A peer is named once for a reason, whatever the cases in which it was lost for it.
void note_loss(Report& report, const std::string& peer, const Error& loss) {
  const auto same = [&](const Skipped& other) { return other.subject == peer; };
  if (std::none_of(report.skipped.begin(), report.skipped.end(), same))
    report.skipped.push_back({peer, to_string(loss)});
}

/// A turn of processes that are made for it.
Result<void> take_turn_alone(const SubjectKind& kind, const Case& what, const Plan& plan,
                             std::uint64_t& trips, Series& series) {
  auto group = start_group({&kind, 1}, what, plan.cpus, plan.interrupt_descriptor);
  if (!group) return Unexpected(group.error());
  auto done = take_turn(*group, 0, kind, what, plan, trips, series);
  group->dismiss();
  return done;
}

}  // namespace

Result<ProcessGroup> start_group(std::span<const SubjectKind> kinds, const Case& what,
                                 const CpuPair& cpus, int interrupt_descriptor) {
  ProcessGroup group(interrupt_descriptor);
  for (const SubjectKind& kind : kinds) {
    auto added =
        group.add(party_of(kind, what, cpus), kind.is_peer ? MayFail::in_any_way : MayFail::never);
    if (!added) return Unexpected(added.error());
  }
  if (auto ready = group.await_ready(); !ready) return Unexpected(ready.error());
  return group;
}

double bytes_needed(const SubjectKind& kind, const Case& size) {
  const unsigned messages = kind.buffers * size.in_flight + size.readers - 1;
  return static_cast<double>(messages) * static_cast<double>(size.bytes);
}

Result<void> run_case(const Case& size, std::span<const SubjectKind> kinds, const Plan& plan,
                      cli::Progress& progress, Report& report) {
  std::vector<SubjectKind> able;
  double needed = 0;
  for (const SubjectKind& kind : kinds) {
    if (!kind.takes(size)) continue;
    able.push_back(kind);
    needed += bytes_needed(kind, size);
  }
  std::optional<ProcessGroup> group;
  if (needed <= static_cast<double>(plan.free_bytes)) {
    auto started = start_group(able, size, plan.cpus, plan.interrupt_descriptor);
    if (!started) return Unexpected(started.error());
    group.emplace(std::move(*started));
  }
  Rounds rounds{size.name, size.bytes, plan.rounds, {}, {}, plan.interrupt_descriptor};
  for (std::size_t i = 0; i < able.size(); ++i)
    rounds.entrants.push_back(
        {able[i].name, [&, &kind = able[i], i, trips = std::uint64_t{0}](Series& series) mutable {
           return group ? take_turn(*group, i, kind, size, plan, trips, series)
                        : take_turn_alone(kind, size, plan, trips, series);
         }});
  rounds.failed = [&](std::size_t i, const Error& error) -> Result<void> {
    const bool is_loss =
        group ? group->loss_of(i) != nullptr : able[i].is_peer && error.code != Code::interrupted;
    if (!is_loss) return Unexpected(error);
    note_loss(report, able[i].name, error);
    return {};
  };
  auto ran = run_rounds(rounds, progress, report);
  if (ran && group) group->dismiss();
  return ran;
}

}  // namespace gantry::bench
