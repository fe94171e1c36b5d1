#include <algorithm>
#include <map>

#include "base/result.hpp"
#include "schedule/choice/rules.hpp"
#include "schedule/space/space.hpp"

namespace gantry {
namespace {

/// Goes along one axis after the other from the best so far.
class Searcher {
 public:
  Searcher(const OverlapOperator& op, const ScheduleCosts& costs,
           const ScheduleConstraints& constraints)
      : op_(op), costs_(costs), constraints_(constraints) {}

  Result<Searched> search() {
    constexpr std::size_t kShare = 10;
    GANTRY_ASSIGN(const Choice first,
                  choose(op_, costs_, {.constraints = constraints_, .rules_only = true}));
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op_, {}));
    result_.space = points_of(split).size();
    most_ = std::max(kFewest, result_.space / kShare);
    GANTRY_TRY(go_from(first, split));
    result_.is_provable = !seen_.empty();
    if (seen_.empty()) GANTRY_TRY(go_from(first, split));
    if (seen_.empty()) return tl::unexpected(too_large_);
    result_.evaluated = static_cast<unsigned>(seen_.size());
    return result_;
  }

 private:
  Result<void> go_from(const Choice& first, const OperatorSplit& split) {
    GANTRY_TRY(evaluate({}));
    GANTRY_TRY(evaluate(first.schedule));
    GANTRY_TRY(evaluate_nearest(first));
    if (seen_.empty()) return {};
    Schedule from;
    do {
      from = result_.schedule;
      GANTRY_TRY(go_along_axes(split));
    } while (from != result_.schedule && !is_spent());
    return {};
  }
  [[nodiscard]] bool is_spent() const noexcept {
    return seen_.size() >= most_ || (seen_.size() >= kFewest && steps_ >= kMostStepsInAll);
  }

  /// The nearest by estimate of each pattern and shape: a start in each part of the space.
  Result<void> evaluate_nearest(const Choice& first) {
    for (const auto pattern : {SchedulePattern::ring, SchedulePattern::at_once})
      for (const auto shape : {ScheduleShape::rows, ScheduleShape::depth}) {
        const ChoiceCandidate* best = nullptr;
        for (const ChoiceCandidate& one : first.candidates)
          if (one.pruned_by.empty() && one.schedule.pattern == pattern &&
              one.schedule.shape == shape &&
              (best == nullptr || one.estimated_s < best->estimated_s))
            best = &one;
        if (best != nullptr) GANTRY_TRY(evaluate(best->schedule));
      }
    return {};
  }
  Result<void> go_along_axes(const OperatorSplit& split) {
    for (const Schedule& next : neighbours(result_.schedule)) {
      OperatorSplit cut = split;
      cut.cut(next);
      GANTRY_TRY(evaluate(cut.schedule()));
    }
    return {};
  }
  /// Each axis changed by itself, the nearest chunks first.
  [[nodiscard]] std::vector<Schedule> neighbours(const Schedule& at) const {
    std::vector<Schedule> all;
    const auto with = [&](auto change) {
      Schedule one = at;
      if (one.pattern == SchedulePattern::serial) one.pattern = SchedulePattern::at_once;
      change(one);
      all.push_back(one);
    };
    for (const unsigned chunks : {at.chunks * 2, at.chunks / 2, at.chunks + 1, at.chunks - 1})
      if (chunks >= 1 && (chunks <= kMost || chunks == op_.ranks))
        with([&](Schedule& one) { one.chunks = chunks; });
    with([](Schedule& one) { one.grain = other(one.grain); });
    with([](Schedule& one) { one.start = other(one.start); });
    with([](Schedule& one) { one.shape = other(one.shape); });
    with([](Schedule& one) {
      one.pattern =
          one.pattern == SchedulePattern::ring ? SchedulePattern::at_once : SchedulePattern::ring;
    });
    with([](Schedule& one) { one.path = other(one.path); });
    return all;
  }
  /// Of an axis with two values.
  template <class Axis>
  static Axis other(Axis value) {
    return value == Axis{} ? Axis{1} : Axis{};
  }

  Result<void> evaluate(const Schedule& schedule) {
    if (seen_.contains(schedule) || is_spent()) return {};
    GANTRY_ASSIGN(OperatorSplit split, OperatorSplit::of(op_, schedule));
    const bool is_allowed = allows(constraints_, split);
    if (!is_allowed) return {};
    const auto plan = result_.is_provable ? make_plan(op_, schedule) : draft_plan(op_, schedule);
    if (!plan && plan.error().code == Code::too_large)
      return too_large_ = plan.error(), Result<void>{};
    if (!plan) return tl::unexpected(plan.error());
    steps_ += plan->steps.size();
    GANTRY_ASSIGN(const Simulated times, simulate(*plan, costs_));
    const bool is_first = seen_.empty();
    seen_.emplace(schedule, times.seconds);
    const bool is_shorter =
        times.seconds < result_.predicted_s ||
        (times.seconds == result_.predicted_s && is_simpler(schedule, result_.schedule));
    if (!is_first && !is_shorter) return {};
    result_.schedule = schedule;
    result_.predicted_s = times.seconds;
    return {};
  }

  static constexpr unsigned kMost = 16;  // chunks of the space
  static constexpr std::size_t kFewest = 4;
  static constexpr std::size_t kMostStepsInAll = std::size_t{1} << 24;  // seconds

  const OverlapOperator& op_;
  const ScheduleCosts& costs_;
  const ScheduleConstraints& constraints_;
  Searched result_;
  std::size_t most_ = 0;
  std::size_t steps_ = 0;  // simulated
  Error too_large_;        // of the last plan that was
  std::map<Schedule, double> seen_;
};

}  // namespace

Result<Searched> search(const OverlapOperator& op, const ScheduleCosts& costs,
                        const ScheduleConstraints& constraints) {
  return guarded([&] { return Searcher(op, costs, constraints).search(); });
}

}  // namespace gantry
