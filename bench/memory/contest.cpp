#include "contest.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>

#include "../support/report/statistics.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kBatches = 5;  // the trips of a round, so that one disturbance is one of 5
constexpr std::uint64_t kMostTrips = 10'000'000;
constexpr std::chrono::seconds kFarewell{5};
constexpr double kGiB = 1 << 30;

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
  link.send(Answer{});
  while (const auto command = link.receive<Command>()) {
    const auto figure = median_of_batches(**runner, *command);
    Answer answer;
    answer.kind = Answer::Kind::measured;
    if (figure) answer.p50_ns = *figure;
    if (!figure) answer = Answer::failure(to_string(figure.error()));
    if (!link.send(answer) || !figure) return;
  }
}

/// A contestant and its process.
class Entrant {
 public:
  static Result<Entrant> start(const Contestant& contestant, const ContestPlan& plan) {
    auto child = Child::start(fmt::format("{} of {}", contestant.subject, contestant.case_name),
                              plan.cpu, [&contestant](Link& link) { serve(link, contestant); });
    if (!child) return Unexpected(child.error());
    return Entrant(contestant, std::move(*child));
  }

  [[nodiscard]] bool is_in() const noexcept { return !gave_up_; }
  [[nodiscard]] const std::optional<std::string>& gave_up() const noexcept { return gave_up_; }

  /// Its next answer; nothing when it gave up.
  Result<std::optional<double>> answer(int interrupt_descriptor) {
    std::array<pollfd, 2> sources = {
        {{child_.link().descriptor(), POLLIN, 0}, {interrupt_descriptor, POLLIN, 0}}};
    while (::poll(sources.data(), sources.size(), -1) < 0) {
      if (errno != EINTR) return Unexpected(system_error("poll"));
    }
    if (sources[1].revents != 0) return Unexpected({Code::interrupted, "interrupted", ""});
    const auto answer = child_.link().receive<Answer>();
    if (!answer) return Unexpected(death());
    if (answer->kind != Answer::Kind::failed) return answer->p50_ns;
    gave_up_ = answer->text.data();
    return std::nullopt;
  }

  Result<std::optional<double>> run(const Command& command, int interrupt_descriptor) {
    child_.link().send(command);  // a process that is gone is noticed by its answer
    return answer(interrupt_descriptor);
  }

  /// How many trips fill a round: more and more of them, until they are a fair sample of warm ones.
  Result<void> calibrate(std::chrono::nanoseconds round_time, int interrupt_descriptor) {
    if (contestant_->counts_once) return {};
    std::uint64_t trips = 1;
    while (true) {
      const auto figure = run({1, trips}, interrupt_descriptor);
      if (!figure) return Unexpected(figure.error());
      if (!*figure) return {};
      const std::uint64_t sample = fitting(round_time / 10, **figure);
      trips_ = fitting(round_time, **figure);
      if (trips >= sample) return {};
      trips = sample;
    }
  }

  /// Lets it end in order; see await_end().
  void dismiss() { child_.link().close(); }
  /// Waits for that. One that does not end is killed when this is dropped.
  void await_end() { child_.wait(kFarewell); }

  void report_to(Report& report) const {
    const Contestant& who = *contestant_;
    if (gave_up_) {
      report.skipped.push_back({fmt::format("{} in {}", who.subject, who.case_name), *gave_up_});
      return;
    }
    for (const Reading& reading : who.readings) {
      std::vector<double> figures;
      for (const double trip : rounds_) figures.push_back(reading.figure(trip));
      report.rows.push_back({who.case_name, who.subject, who.bytes, reading.metric, reading.unit,
                             summarize(figures)});
    }
  }

  Result<void> take_turn(int interrupt_descriptor) {
    const auto figure = run({trips_ < kBatches ? 0 : trips_ / 10, trips_}, interrupt_descriptor);
    if (!figure) return Unexpected(figure.error());
    if (*figure) rounds_.push_back(**figure);
    return {};
  }

 private:
  Entrant(const Contestant& contestant, Child child)
      : contestant_(&contestant), child_(std::move(child)) {}

  static std::uint64_t fitting(std::chrono::nanoseconds time, double trip_ns) {
    const double trips = static_cast<double>(time.count()) / std::max(0.1, trip_ns);
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(trips), 1, kMostTrips);
  }

  Error death() {
    const bool ended = child_.wait(kFarewell);
    return {Code::peer_gone,
            fmt::format("{} died: {}", child_.role(), ended ? child_.ending() : "closed its link"),
            ended && child_.was_killed()
                ? "see dmesg whether the kernel ran out of memory, and run again"
                : ""};
  }

  const Contestant* contestant_;
  Child child_;
  std::vector<double> rounds_;
  std::optional<std::string> gave_up_;  // why
  std::uint64_t trips_ = 1;
};

Result<void> prepare(std::vector<Entrant>& entrants, std::chrono::nanoseconds round_time,
                     int interrupt_descriptor) {
  for (Entrant& entrant : entrants) {
    const auto ready = entrant.answer(interrupt_descriptor);
    if (!ready) return Unexpected(ready.error());
    if (!entrant.is_in()) continue;
    const auto calibrated = entrant.calibrate(round_time, interrupt_descriptor);
    if (!calibrated) return calibrated;
  }
  return {};
}

/// Why the contest cannot be had here; empty when it can.
std::string lack_of_memory(Bytes needed) {
  const Bytes free = probe_machine().memory_free_bytes;
  if (needed <= free / 10 * 9) return {};
  return fmt::format("needs {:.1f} GiB of memory, of which {:.1f} are free",
                     static_cast<double>(needed) / kGiB, static_cast<double>(free) / kGiB);
}

Result<std::vector<Entrant>> enter(const Contest& contest, const ContestPlan& plan) {
  std::vector<Entrant> entrants;
  entrants.reserve(contest.contestants.size());
  for (const Contestant& contestant : contest.contestants) {
    auto entrant = Entrant::start(contestant, plan);
    if (!entrant) return Unexpected(entrant.error());
    entrants.push_back(std::move(*entrant));
  }
  const auto ready = prepare(entrants, contest.round_time, plan.interrupt_descriptor);
  if (!ready) return Unexpected(ready.error());
  return entrants;
}

}  // namespace

Result<void> run_contest(const Contest& contest, const ContestPlan& plan, Progress& progress,
                         Report& report) {
  progress.step(contest.label);
  if (const std::string lack = lack_of_memory(contest.memory_bytes); !lack.empty()) {
    report.skipped.push_back({contest.label, lack});
    return {};
  }
  auto entrants = enter(contest, plan);
  if (!entrants) return Unexpected(entrants.error());
  for (unsigned round = 0; round < contest.rounds; ++round) {
    if (round > 0) progress.step(contest.label);
    for (std::size_t turn = 0; turn < entrants->size(); ++turn) {
      Entrant& entrant = (*entrants)[(turn + round) % entrants->size()];
      if (!entrant.is_in()) continue;
      const auto done = entrant.take_turn(plan.interrupt_descriptor);
      if (!done) return done;
    }
  }
  for (Entrant& entrant : *entrants) entrant.dismiss();
  for (Entrant& entrant : *entrants) entrant.await_end();
  for (const Entrant& entrant : *entrants) entrant.report_to(report);
  return {};
}

Result<std::optional<std::string>> try_open(const Contestant& contestant, const ContestPlan& plan) {
  auto entrant = Entrant::start(contestant, plan);
  if (!entrant) return Unexpected(entrant.error());
  const auto ready = entrant->answer(plan.interrupt_descriptor);
  if (!ready) return Unexpected(ready.error());
  entrant->dismiss();
  entrant->await_end();
  return entrant->gave_up();
}

}  // namespace gantry::bench
