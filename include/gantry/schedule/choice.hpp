#pragma once  // gantry/schedule/choice.hpp: which schedule an operator gets, and why.

#include <gantry/schedule/cost.hpp>
#include <gantry/schedule/overlap.hpp>
#include <string>
#include <vector>

namespace gantry {

/// A rule leaves schedules out before anything is simulated.
struct ChoiceRule {
  std::string_view name;    ///< For ChoiceOptions::without.
  std::string_view reason;  ///< Why such schedules are not worth it, for people.
};
/// All rules, in the order in which they are asked.
[[nodiscard]] GANTRY_API std::span<const ChoiceRule> choice_rules() noexcept;

/// What the choice keeps to, and how far it looks.
struct ChoiceOptions {
  ScheduleConstraints constraints{};   ///< What no schedule may break.
  std::vector<std::string> without{};  ///< Names of rules that are not asked.
  bool rules_only = false;             ///< Nothing is simulated.
  double least_gain = 0.03;            ///< Below this part of serial's time it is serial.
  /// Of several the nearest by the rules' estimate. 0: as rules_only.
  unsigned most_simulated = 12;
};

/// A schedule that was thought of.
struct ChoiceCandidate {
  Schedule schedule;  ///< Which one.
  /// A rule's name; "estimate" if others promised more; "too-large" for a plan of too many steps;
  /// empty: none, it was simulated.
  std::string_view pruned_by{};
  double estimated_s = 0;   ///< By closed forms; 0 if a rule left it out.
  double predicted_s = 0;   ///< In virtual time; 0 if not simulated.
  ScheduleLosses losses{};  ///< Against serial; zero if not simulated.
};

/// A schedule that was run.
struct MeasuredSchedule {
  Schedule schedule;   ///< Which one.
  double seconds = 0;  ///< The slowest rank's median.
};

/// The schedule that was taken, and what was thought of beside it.
struct Choice {
  Schedule schedule;                          ///< The one that was taken.
  bool is_simulated = false;                  ///< Or both times are estimates.
  double predicted_s = 0;                     ///< What it takes.
  double serial_s = 0;                        ///< What serial takes.
  std::string decided{};                      ///< What decided; one line.
  std::vector<ChoiceCandidate> candidates{};  ///< All that were thought of.
  /// The chosen first (the quickest, or serial where nothing is 3 % quicker), those that soon
  /// dropped out last; nothing unless a group ran some: ShardedProductOptions::measure_best.
  std::vector<MeasuredSchedule> measured{};
};

/// Picks a schedule by rules and estimates, then by simulation of what is left. Every rank that
/// calls it with the same arguments gets the same. Of equals it takes serial, then the simpler.
/// Errors: `invalid_argument`; `too_large` beyond about 500 ranks, where no plan can be proved;
/// `unsupported`
/// if no schedule keeps to the constraints.
[[nodiscard]] GANTRY_API Result<Choice> choose(const OverlapOperator& op,
                                               const ScheduleCosts& costs,
                                               const ChoiceOptions& options = {});

/// A point of the space, and what it would take.
struct Searched {
  Schedule schedule;       ///< The best that was found.
  double predicted_s = 0;  ///< What it takes, in virtual time.
  /// False: no plan of so many ranks is small enough to be proved, so make_plan() makes none of
  /// this schedule; its time is that of a plan that nobody has checked.
  bool is_provable = true;
  unsigned evaluated = 0;  ///< Schedules that were simulated.
  std::size_t space = 0;   ///< Schedules that there are.
};
/// Goes from the rules' choice along one axis after the other while that helps; it simulates at
/// most a tenth of the space, 2^24 steps in all, and at least four schedules. Errors: as choose();
/// `too_large` beyond about a thousand ranks.
[[nodiscard]] GANTRY_API Result<Searched> search(const OverlapOperator& op,
                                                 const ScheduleCosts& costs,
                                                 const ScheduleConstraints& constraints = {});

}  // namespace gantry
