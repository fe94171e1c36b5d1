#include "contest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../support/process/process_group.hpp"
#include "../support/program/sizes.hpp"
#include "../support/run/rounds.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kBatches = 5;  // the trips of a round, so that one disturbance is one of 5
constexpr std::uint64_t kMostTrips = 10'000'000;

/// The median of the batches that `command`'s trips are cut into.
Result<double> median_of_batches(Runner& runner, const Command& command) {
  if (command.warmups > 0) {
    if (const auto warmed = runner.run(command.warmups); !warmed) return warmed;
  }
  const std::uint64_t batches = std::min(kBatches, command.trips);
  std::vector<double> figures;
  for (std::uint64_t i = 0; i < batches; ++i) {
    const auto figure = runner.run(command.trips / batches);
    if (!figure) return figure;
    figures.push_back(*figure);
  }
  return median(figures);
}

/// What a contestant's process does until its link ends.
void serve(Link& link, const Contestant& contestant) {
  const auto runner = contestant.open();
  if (!runner) {
    link.send(Answer::failure(to_string(runner.error())));
    return;
  }
  obey_commands(link, [&](const Command& command) -> Result<Answer> {
    const auto figure = median_of_batches(**runner, command);
    if (!figure) return Unexpected(figure.error());
    Answer answer;
    answer.kind = Answer::Kind::measured;
    answer.p50_ns = *figure;
    return answer;
  });
}

Result<void> add(ProcessGroup& group, const Contestant& contestant, int cpu) {
  const std::string role = fmt::format("{} of {}", contestant.subject, contestant.case_name);
  return group.add(Party{{{role, cpu, [&contestant](Link& link) { serve(link, contestant); }}}},
                   MayFail::by_giving_up);
}

/// How many trips it makes is found out in the first turn.
Result<void> take_turn(ProcessGroup& group, std::size_t number, const Contestant& who,
                       std::chrono::nanoseconds round_time, std::uint64_t& trips, Series& series) {
  if (trips == 0 && who.counts_once) trips = 1;
  if (trips == 0) {
    const auto fitting =
        trips_filling(round_time, 1, kMostTrips, [&](std::uint64_t some) -> Result<double> {
          const auto figures = group.run(number, {1, some});
          if (!figures) return Unexpected(figures.error());
          return figures->p50_ns;
        });
    if (!fitting) return Unexpected(fitting.error());
    trips = *fitting;
  }
  const auto figures = group.run(number, {trips < kBatches ? 0 : trips / 10, trips});
  if (!figures) return Unexpected(figures.error());
  for (const Reading& reading : who.readings)
    series.add(reading.metric, reading.unit, reading.figure(figures->p50_ns));
  return {};
}

}  // namespace

Result<void> run_contest(const Contest& contest, const ContestPlan& plan, cli::Progress& progress,
                         Report& report) {
  const std::string lack =
      lack_of_memory(static_cast<double>(contest.memory_bytes), probe_machine().memory_free_bytes);
  if (!lack.empty()) {
    progress.step(contest.label);
    report.skipped.push_back({contest.label, lack});
    return {};
  }
  ProcessGroup group(plan.interrupt_descriptor);
  Rounds rounds{contest.label,
                contest.contestants.front().bytes,
                contest.rounds,
                {},
                [&](std::size_t i, const Error& error) -> Result<void> {
                  if (group.loss_of(i) == nullptr) return Unexpected(error);
                  const Contestant& who = contest.contestants[i];
                  return skip_unless(false, report, who.subject, who.case_name, error);
                },
                plan.interrupt_descriptor};
  for (std::size_t i = 0; i < contest.contestants.size(); ++i) {
    const Contestant& who = contest.contestants[i];
    if (auto added = add(group, who, plan.cpu); !added) return added;
    rounds.entrants.push_back({who.subject,
                               [&, i, trips = std::uint64_t{0}](Series& series) mutable {
                                 return take_turn(group, i, who, contest.round_time, trips, series);
                               },
                               who.case_name});
  }
  if (auto ready = group.await_ready(); !ready) return ready;
  if (auto ran = run_rounds(rounds, progress, report); !ran) return ran;
  group.dismiss();
  return {};
}

Result<std::optional<std::string>> try_open(const Contestant& contestant, const ContestPlan& plan) {
  ProcessGroup group(plan.interrupt_descriptor);
  if (auto added = add(group, contestant, plan.cpu); !added) return Unexpected(added.error());
  if (auto ready = group.await_ready(); !ready) return Unexpected(ready.error());
  const Error* const loss = group.loss_of(0);
  auto why = loss == nullptr ? std::optional<std::string>() : to_string(*loss);
  group.dismiss();
  return why;
}

}  // namespace gantry::bench
