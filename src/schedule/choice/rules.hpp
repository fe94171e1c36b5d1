#pragma once  // schedule/choice/rules.hpp: what need not be simulated.

#include "schedule/choice/estimate.hpp"

namespace gantry {

struct PruningRule {
  ChoiceRule rule;
  /// Whether a schedule that is not serial is left out.
  bool (*prunes)(const Estimator& estimator, const ChoiceOptions& options, const Schedule& one);
};

/// The first rule, of those that are asked (a bit each), that leaves it out; nullptr: none does.
[[nodiscard]] const PruningRule* rule_against(std::uint32_t asked, const Estimator& estimator,
                                              const ChoiceOptions& options, const Schedule& one);

/// Candidates of an operator: estimated, or left out by a rule. Errors: `invalid_argument` for a
/// rule that there is not.
[[nodiscard]] Result<std::vector<ChoiceCandidate>> candidates_of(OperatorSplit& split,
                                                                 const Estimator& estimator,
                                                                 const ChoiceOptions& options);
/// Of two that take the same time. Serial is the simplest.
[[nodiscard]] bool is_simpler(const Schedule& one, const Schedule& other) noexcept;
/// The shorter; of those that take the same time but for rounding, the simpler.
[[nodiscard]] bool is_better(const Schedule& one, double seconds, const Schedule& other,
                             double others) noexcept;

}  // namespace gantry
