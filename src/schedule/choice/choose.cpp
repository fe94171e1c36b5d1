#include <algorithm>

#include "base/result.hpp"
#include "schedule/choice/rules.hpp"
#include "schedule/cost/costs.hpp"
#include "schedule/space/space.hpp"

namespace gantry {
namespace {

class Chooser {
 public:
  Chooser(const OverlapOperator& op, const ScheduleCosts& costs, const ChoiceOptions& options)
      : op_(op), costs_(costs), options_(options) {
    choice_.is_simulated = !options.rules_only && options.most_simulated > 0;
  }

  Result<Choice> choose() {
    GANTRY_TRY(check_costs(costs_));
    GANTRY_ASSIGN(OperatorSplit split, OperatorSplit::of(op_, {}));
    const Estimator estimator(split, costs_);
    GANTRY_ASSIGN(choice_.candidates, candidates_of(split, estimator, options_));
    space_ = choice_.candidates.size();
    choice_.serial_s = estimator.seconds_of_schedule({});
    by_estimate_ = open_candidates();
    if (choice_.is_simulated) {
      GANTRY_TRY(simulate_serial());
      GANTRY_TRY(simulate_nearest());
    }
    GANTRY_TRY(decide());
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

  // Others are compared with it, even where it cannot be proved.
  Result<void> simulate_serial() {
    auto plan = make_plan(op_, {});
    if (!plan && plan.error().code == Code::too_large) plan = draft_plan(op_, {});
    if (!plan) return tl::unexpected(plan.error());
    GANTRY_ASSIGN(serial_, simulate(*plan, costs_));
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
      const auto plan = make_plan(op_, one->schedule);
      if (!plan && plan.error().code == Code::too_large) {
        one->pruned_by = "too-large";
        too_large_ = plan.error();
        continue;
      }
      if (!plan) return tl::unexpected(plan.error());
      Simulated times = serial_;
      if (!is_serial) {
        GANTRY_ASSIGN(times, simulate(*plan, costs_));
        ++simulated_;
      }
      one->predicted_s = times.seconds;
      one->losses = losses_of(times, serial_);
    }
    return {};
  }

  [[nodiscard]] double seconds_of_candidate(const ChoiceCandidate& one) const {
    return choice_.is_simulated ? one.predicted_s : one.estimated_s;
  }

  Result<void> decide() {
    const ChoiceCandidate* best = nullptr;
    const ChoiceCandidate* serial = nullptr;
    for (const ChoiceCandidate& one : choice_.candidates) {
      if (!one.pruned_by.empty()) continue;
      if (one.schedule == Schedule{}) serial = &one;
      if (best == nullptr || is_better(one.schedule, seconds_of_candidate(one), best->schedule,
                                       seconds_of_candidate(*best)))
        best = &one;
    }
    if (best == nullptr)
      return fail(too_large_.code,
                  fmt::format("{} ranks: no schedule makes a plan that can be proved: {}",
                              op_.ranks, too_large_.message),
                  "ask for fewer ranks; a search says what such a plan would take");
    const double gain = 1 - seconds_of_candidate(*best) / std::max(choice_.serial_s, 1e-300);
    const bool is_serial = serial != nullptr && (best == serial || gain < options_.least_gain);
    if (is_serial) best = serial;
    choice_.schedule = best->schedule;
    choice_.predicted_s = seconds_of_candidate(*best);
    say_why(is_serial, gain);
    return {};
  }
  void say_why(bool is_serial, double gain) {
    const std::string how = choice_.is_simulated
                                ? fmt::format("{} schedules simulated, of {} that rules left of {}",
                                              simulated_ + 1, by_estimate_.size(), space_)
                                : fmt::format("estimates of {} schedules that rules left of {}",
                                              by_estimate_.size(), space_);
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
  Error too_large_;  // of the last one that was
  std::size_t space_ = 0;
};

}  // namespace

Result<Choice> choose(const OverlapOperator& op, const ScheduleCosts& costs,
                      const ChoiceOptions& options) {
  return guarded([&] { return Chooser(op, costs, options).choose(); });
}

}  // namespace gantry
