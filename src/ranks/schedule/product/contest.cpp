#include "ranks/schedule/product/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <tuple>

#include "core/base/text_lines.hpp"
#include "ranks/group/group.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry {
namespace {

RankMessage message_of(const Group::Impl& group, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {RankMessage::Kind::text, group.operation(), 0, {bytes.begin(), bytes.end()}};
}

Result<void> say(Group::Impl& group, const std::string& text) {
  if (text.size() > RankMessage::kMostPayload)
    return fail(Code::too_large, fmt::format("a text of {} bytes for all ranks", text.size()));
  return group.say_to_all(message_of(group, text));
}

Result<std::string> hear(Group::Impl& group, unsigned rank, Deadline deadline) {
  for (;;) {
    const auto has_moved = group.serve(rank);
    GANTRY_ASSIGN(const auto message, group.take(rank, RankMessage::Kind::text));
    if (message)
      return std::string(reinterpret_cast<const char*>(message->payload.data()),
                         message->payload.size());
    // It may have said so and left.
    if (!has_moved) return tl::unexpected(has_moved.error());
    if (deadline.passed())
      return fail(Code::timed_out, fmt::format("rank {} did not say what it found in time", rank));
    if (!*has_moved) group.sleep(-1, deadline);
  }
}

constexpr std::size_t kMostFinalists = 64;
constexpr std::size_t kOperands = 3;  // a, b and c, which all plans of an operator have
// A round more for whoever takes little time, whose noise is large.
constexpr unsigned kFewestRounds = 3;
constexpr unsigned kMostRounds = 51;
constexpr double kSecondsOfOne = 0.4;
constexpr double kNear = 1.1;  // what noise of so few rounds may hide
constexpr double kWorthLeavingSerial = 1.03;

double seconds_of_candidate(const ChoiceCandidate& one) noexcept {
  return one.predicted_s > 0 ? one.predicted_s : one.estimated_s;
}

auto kind_of(const Schedule& one) noexcept {
  return std::tuple(one.pattern, one.shape, one.grain);
}

unsigned rounds_for(double seconds) noexcept {
  const double wanted = kSecondsOfOne / std::max(seconds, 1e-9);
  return static_cast<unsigned>(std::clamp<double>(wanted, kFewestRounds, kMostRounds)) | 1;
}

double median_of(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// One of them, ready to run.
struct Finalist {
  Schedule schedule;
  PlanBuffers buffers;
  PlanExecutor executor;
  std::vector<double> rounds_s{};  // of the slowest rank in each
  double seconds = 0;              // their median
  bool is_out = false;
};

class ScheduleContest {
 public:
  ScheduleContest(Group& group, const OverlapOperator& op, const ShardedProductOptions& options,
                  Deadline deadline)
      : group_(group), op_(op), options_(options), deadline_(deadline) {}

  /// If any rank has no plan or no memory for it beside the others, all leave it out.
  Result<void> add(const Schedule& schedule) {
    auto made = guarded([&] { return make(schedule); });
    GANTRY_ASSIGN(const bool takes_part, agree_on_it(schedule, made));
    if (!takes_part) return {};
    GANTRY_ASSIGN(PlanExecutor executor,
                  PlanExecutor::prepare(group_, made->plan, made->buffers.tensors,
                                        executor_options(options_), deadline_));
    finalists_.push_back({schedule, std::move(made->buffers), std::move(executor)});
    bytes_ += made->bytes;
    return {};
  }
  [[nodiscard]] std::size_t size() const noexcept { return finalists_.size(); }
  /// "; left out: SCHEDULE: rank 1: why", the same at all ranks; or nothing.
  [[nodiscard]] const std::string& left_out() const noexcept { return left_out_; }

  /// Those that are not out, in turns.
  Result<void> run(unsigned rounds) {
    std::vector<Finalist*> in;
    for (Finalist& one : finalists_)
      if (!one.is_out) in.push_back(&one);
    for (Finalist* const one : in)
      if (one->rounds_s.empty()) GANTRY_TRY(time(*one));  // makes pages, and does not count
    for (unsigned round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < in.size(); ++i) {
        Finalist& one = *in[(i + round) % in.size()];
        GANTRY_ASSIGN(const double seconds, time(one));
        one.rounds_s.push_back(seconds);
      }
    for (Finalist* const one : in) one->seconds = median_of(one->rounds_s);
    return {};
  }

  [[nodiscard]] const Finalist& quickest() const {
    return *std::ranges::min_element(finalists_, {}, &Finalist::seconds);
  }
  /// All but those that come near the quickest, and serial, which the last word is about.
  void drop_slow() {
    const double most = quickest().seconds * kNear;
    for (Finalist& one : finalists_) one.is_out = one.seconds > most && one.schedule != Schedule{};
  }
  [[nodiscard]] bool knows(const Schedule& schedule) const {
    return std::ranges::find(finalists_, schedule, &Finalist::schedule) != finalists_.end();
  }
  /// What is chosen first, which is the quickest, or serial if nothing is clearly quicker; those
  /// that are out, whose turns were others, last.
  [[nodiscard]] std::vector<MeasuredSchedule> measured() const {
    std::vector<const Finalist*> order;
    for (const Finalist& one : finalists_) order.push_back(&one);
    const auto seconds = [](const Finalist* one) {
      return one->schedule == Schedule{} ? one->seconds / kWorthLeavingSerial : one->seconds;
    };
    std::ranges::sort(order, {}, [&](const Finalist* one) {
      return std::tuple(one->is_out, seconds(one), one->schedule);
    });
    std::vector<MeasuredSchedule> all;
    for (const Finalist* const one : order) all.push_back({one->schedule, one->seconds});
    return all;
  }

 private:
  struct Made {
    Plan plan;
    PlanBuffers buffers;
    Bytes bytes = 0;  // that it takes beside those that are there
  };

  /// The operands are everybody's, what lies between is each one's own.
  Result<Made> make(const Schedule& schedule) const {
    const Bytes at_most = options_.choice.constraints.at_most;
    Made made;
    GANTRY_ASSIGN(made.plan, make_plan(op_, schedule));
    const bool is_first = finalists_.empty();
    for (std::size_t tensor = is_first ? 0 : kOperands; tensor < made.plan.tensors.size(); ++tensor)
      made.bytes += bytes_of(made.plan.tensors[tensor]);
    if (made.bytes > at_most - bytes_)
      return fail(Code::too_large, fmt::format("{} bytes beside the {} of others, beyond {}",
                                               made.bytes, bytes_, at_most));
    std::span<const PlanMemory> own;
    if (!is_first) own = std::span(finalists_.front().buffers.tensors).first(kOperands);
    GANTRY_ASSIGN(made.buffers, PlanBuffers::make(made.plan, group_.rank(), own));
    return made;
  }
  /// Whether all ranks have made it.
  Result<bool> agree_on_it(const Schedule& schedule, const Result<Made>& made) {
    GANTRY_ASSIGN(const auto all,
                  exchange(group_, made ? std::string() : made.error().message, deadline_));
    const auto lacks = std::ranges::find_if(all, [](const auto& why) { return !why.empty(); });
    if (lacks == all.end()) return true;
    left_out_ += fmt::format("{} {}: rank {}: {}", left_out_.empty() ? "; left out:" : ",",
                             to_string(schedule), lacks - all.begin(), *lacks);
    return false;
  }

  /// Of the slowest rank, which is not always the same one; all hear it.
  Result<double> time(Finalist& one) {
    GANTRY_TRY(meeting_.wait(deadline_));
    GANTRY_ASSIGN(const PlanRun run, one.executor.run(deadline_));
    return slowest_of(group_, std::chrono::duration<double>(run.elapsed).count(), deadline_);
  }

  Group& group_;
  const OverlapOperator& op_;
  const ShardedProductOptions& options_;
  const Deadline deadline_;
  Meeting meeting_{group_};
  std::deque<Finalist> finalists_;  // executors know where their memory is
  Bytes bytes_ = 0;                 // that they take
  std::string left_out_;
};

/// The same with half and twice as many chunks, if no rule leaves that out.
std::vector<Schedule> neighbours(const Choice& choice, const Schedule& at) {
  std::vector<Schedule> all;
  for (const unsigned chunks : {at.chunks / 2, at.chunks * 2})
    for (const ChoiceCandidate& one : choice.candidates) {
      Schedule wanted = at;
      wanted.chunks = chunks;
      if (one.schedule == wanted && one.estimated_s > 0) all.push_back(wanted);
    }
  return all;
}

void take_first(Choice& choice, unsigned rounds) {
  const MeasuredSchedule& best = choice.measured.front();
  const auto& quickest = *std::ranges::min_element(choice.measured, {}, &MeasuredSchedule::seconds);
  std::string serial;
  for (const MeasuredSchedule& one : choice.measured)
    if (one.schedule == Schedule{} && best.schedule != Schedule{})
      serial = fmt::format(", serial {:.3g} ms", one.seconds * 1e3);
  const std::string before = best.schedule == choice.schedule
                                 ? "as predicted"
                                 : "predicted was " + to_string(choice.schedule);
  choice.decided = fmt::format(
      "{}: {:.3g} ms{}, {} of {} that were run in {} rounds; {}", to_string(best.schedule),
      best.seconds * 1e3, serial,
      quickest.schedule == best.schedule ? "the quickest" : "hardly slower than the quickest",
      choice.measured.size(), rounds, before);
  choice.schedule = best.schedule;
  for (const ChoiceCandidate& one : choice.candidates)
    if (one.schedule == best.schedule) choice.predicted_s = seconds_of_candidate(one);
}

}  // namespace

Result<std::string> agree_on(Group& group, const std::string& text, Deadline deadline) {
  Group::Impl& ranks = group.impl();
  const auto held = ranks.hold();
  ranks.begin_operation();
  if (ranks.rank() != 0) return hear(ranks, 0, deadline);
  GANTRY_TRY(say(ranks, text));
  return text;
}

Result<std::vector<std::string>> exchange(Group& group, const std::string& text,
                                          Deadline deadline) {
  Group::Impl& ranks = group.impl();
  const auto held = ranks.hold();
  ranks.begin_operation();
  GANTRY_TRY(say(ranks, text));
  std::vector<std::string> all(ranks.ranks());
  for (unsigned rank = 0; rank < ranks.ranks(); ++rank) {
    if (rank == ranks.rank()) {
      all[rank] = text;
      continue;
    }
    GANTRY_ASSIGN(all[rank], hear(ranks, rank, deadline));
  }
  return all;
}

Result<double> slowest_of(Group& group, double seconds, Deadline deadline) {
  GANTRY_ASSIGN(const auto all, exchange(group, fmt::format("{}", seconds), deadline));
  double slowest = 0;
  for (unsigned rank = 0; rank < all.size(); ++rank) {
    const double its = number_in<double>(all[rank]).value_or(-1);
    if (!(its >= 0))
      return fail(Code::peer_misbehaved,
                  fmt::format("rank {} says no time of what it measured", rank));
    slowest = std::max(slowest, its);
  }
  return slowest;
}

Result<void> Meeting::wait(Deadline deadline) {
  if (!executor_) {
    Plan plan;
    plan.ranks = group_.ranks();
    for (unsigned rank = 0; rank < plan.ranks; ++rank)
      plan.steps.push_back({PlanVerb::barrier, rank, 0, {}, {}, {}, false, {}});
    GANTRY_ASSIGN(PlanExecutor made, PlanExecutor::prepare(group_, plan, {}, {}, deadline));
    executor_.emplace(std::move(made));
  }
  GANTRY_TRY(executor_->run(deadline));
  return {};
}

PlanExecutorOptions executor_options(const ShardedProductOptions& options) {
  return {.limits = {options.choice.constraints.at_most},
          .gemm = options.gemm,
          .device = options.device,
          .device_gemm = options.device_gemm};
}

std::vector<Schedule> finalists(const Choice& choice, unsigned count) {
  constexpr double kWorthARun = 1.3;  // predictions err by less
  std::vector<const ChoiceCandidate*> open;
  bool has_serial = false;
  for (const ChoiceCandidate& one : choice.candidates) {
    if (!one.pruned_by.empty()) continue;
    if (one.schedule == Schedule{})
      has_serial = true;
    else if (one.schedule != choice.schedule)
      open.push_back(&one);
  }
  std::ranges::sort(open, {}, [](const ChoiceCandidate* one) {
    return std::pair(seconds_of_candidate(*one), one);
  });
  std::vector<Schedule> taken{choice.schedule};
  if (has_serial && choice.schedule != Schedule{}) taken.emplace_back();
  const std::size_t most = std::min<std::size_t>(count + (has_serial ? 1 : 0), kMostFinalists);
  for (const bool any : {false, true})
    for (const ChoiceCandidate* one : open) {
      if (taken.size() >= most || seconds_of_candidate(*one) > kWorthARun * choice.predicted_s)
        break;
      const auto is_known = [&](const Schedule& other) {
        return any ? other == one->schedule : kind_of(other) == kind_of(one->schedule);
      };
      if (std::ranges::none_of(taken, is_known)) taken.push_back(one->schedule);
    }
  if (taken.size() == 1) taken.clear();
  return taken;
}

Result<Choice> choose_by_running(Group& group, const OverlapOperator& op, Choice choice,
                                 const ShardedProductOptions& options, Deadline deadline) {
  const std::vector<Schedule> schedules = finalists(choice, options.measure_best);
  if (schedules.size() < 2) return choice;
  Group::Impl& ranks = group.impl();
  const unsigned rounds = rounds_for(choice.serial_s);
  ScheduleContest contest(group, op, options, deadline);
  const auto measure = [&]() -> Result<void> {
    for (const Schedule& one : schedules) GANTRY_TRY(contest.add(one));
    if (contest.size() < 2) return {};
    GANTRY_TRY(contest.run(rounds));
    // Once more those that are near, and what may be a little better.
    contest.drop_slow();
    for (const Schedule& one : neighbours(choice, contest.quickest().schedule))
      if (!contest.knows(one)) GANTRY_TRY(contest.add(one));
    return contest.run(rounds);
  };
  if (const auto done = measure(); !done) {
    const auto held = ranks.hold();
    return tl::unexpected(ranks.break_with(done.error()));
  }
  if (contest.size() >= 2) {
    choice.measured = contest.measured();
    take_first(choice, 2 * rounds);
  }
  choice.decided += contest.left_out();
  return choice;
}

}  // namespace gantry
