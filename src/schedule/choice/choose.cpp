#include <algorithm>

#include "base/result.hpp"
#include "schedule/choice/rules.hpp"
#include "schedule/cost/costs.hpp"

namespace gantry {
namespace {

class Chooser {
 public:
  Chooser(const OverlapOperator& op, const ScheduleCosts& costs, const ChoiceOptions& options)
      : op_(op), costs_(costs), options_(options) {}

  Result<Choice> choose() {
    GANTRY_TRY(check_costs(costs_));
    GANTRY_ASSIGN(OperatorSplit split, OperatorSplit::of(op_, {}));
    const Estimator estimator(split, costs_);
    GANTRY_ASSIGN(choice_.candidates, candidates_of(split, estimator, options_));
    space_ = choice_.candidates.size();
    choice_.serial_s = estimator.seconds_of_schedule({});
    by_estimate_ = open_candidates();
    if (!options_.rules_only) {
      GANTRY_TRY(simulate_serial());
      GANTRY_TRY(simulate_nearest());
    }
    decide();
    return std::move(choice_);
  }

 private:
  /// Those that no rule left out, the shortest estimate first. If rules leave nothing, of what the
  /// constraints allow, all are open.
  std::vector<ChoiceCandidate*> open_candidates() {
    std::vector<ChoiceCandidate*> open;
    for (ChoiceCandidate& one : choice_.candidates)
      if (one.pruned_by.empty()) open.push_back(&one);
    if (open.empty()) {
      for (ChoiceCandidate& one : choice_.candidates) {
        one.pruned_by = {};
        open.push_back(&one);
      }
    }
    // Of equals the first: they are elements of one vector. (libstdc++ 12's stable_sort() calls
    // what C++17 deprecated.)
    std::ranges::sort(open, [](const auto* one, const auto* other) {
      if (is_better(one->schedule, one->estimated_s, other->schedule, other->estimated_s))
        return true;
      return !is_better(other->schedule, other->estimated_s, one->schedule, one->estimated_s) &&
             one < other;
    });
    return open;
  }

  Result<void> simulate_serial() {
    GANTRY_ASSIGN(const Plan plan, make_plan(op_, {}));
    GANTRY_ASSIGN(serial_, simulate(plan, costs_));
    choice_.serial_s = serial_.seconds;
    return {};
  }
  Result<void> simulate_nearest() {
    for (ChoiceCandidate* one : by_estimate_) {
      const bool is_serial = one->schedule == Schedule{};
      if (simulated_ >= options_.most_simulated && !is_serial) {
        one->pruned_by = "estimate";
        continue;
      }
      Simulated times = serial_;
      if (!is_serial) {
        const auto plan = make_plan(op_, one->schedule);
        if (!plan && plan.error().code == Code::too_large) {
          one->pruned_by = "too-large";
          continue;
        }
        if (!plan) return tl::unexpected(plan.error());
        GANTRY_ASSIGN(times, simulate(*plan, costs_));
        ++simulated_;
      }
      one->predicted_s = times.seconds;
      one->losses = losses_of(times, serial_);
    }
    return {};
  }

  [[nodiscard]] double seconds_of_candidate(const ChoiceCandidate& one) const {
    return options_.rules_only ? one.estimated_s : one.predicted_s;
  }

  void decide() {
    const ChoiceCandidate* best = by_estimate_.front();  // one of which a time is known
    const ChoiceCandidate* serial = nullptr;
    for (const ChoiceCandidate& one : choice_.candidates) {
      if (!one.pruned_by.empty()) continue;
      if (one.schedule == Schedule{}) serial = &one;
      if (is_better(one.schedule, seconds_of_candidate(one), best->schedule,
                    seconds_of_candidate(*best)))
        best = &one;
    }
    const double gain = 1 - seconds_of_candidate(*best) / std::max(choice_.serial_s, 1e-300);
    const bool is_serial = serial != nullptr && (best == serial || gain < options_.least_gain);
    if (is_serial) best = serial;
    choice_.schedule = best->schedule;
    choice_.predicted_s = seconds_of_candidate(*best);
    say_why(is_serial, gain);
  }
  void say_why(bool is_serial, double gain) {
    const std::string how = options_.rules_only
                                ? fmt::format("estimates of {} schedules that rules left of {}",
                                              by_estimate_.size(), space_)
                                : fmt::format("{} schedules simulated, of {} that rules left of {}",
                                              simulated_ + 1, by_estimate_.size(), space_);
    if (!is_serial) {
      choice_.decided = fmt::format("{}: {:.2f} of serial's time; {}", to_string(choice_.schedule),
                                    1 - gain, how);
      return;
    }
    if (by_estimate_.size() > 1) {
      choice_.decided =
          fmt::format("serial: the best of the others gains {:.1f} %, less than {:.1f} %; {}",
                      std::max(0.0, gain) * 100, options_.least_gain * 100, how);
      return;
    }
    std::string_view rule = "none is different";
    for (const ChoiceCandidate& one : choice_.candidates)
      if (!one.pruned_by.empty() && one.schedule.pattern != SchedulePattern::serial) {
        rule = one.pruned_by;
        break;
      }
    choice_.decided = fmt::format("serial: {}", rule);
  }

  const OverlapOperator& op_;
  const ScheduleCosts& costs_;
  const ChoiceOptions& options_;
  Choice choice_;
  std::vector<ChoiceCandidate*> by_estimate_;
  Simulated serial_;
  unsigned simulated_ = 0;
  std::size_t space_ = 0;
};

}  // namespace

Result<Choice> choose(const OverlapOperator& op, const ScheduleCosts& costs,
                      const ChoiceOptions& options) {
  return guarded([&] { return Chooser(op, costs, options).choose(); });
}

}  // namespace gantry
