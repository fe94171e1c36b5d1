#pragma once  // schedule/choice/rules.hpp: what a schedule takes at least, and what need not be
              // simulated.

#include <gantry/plan.hpp>

#include "ranks/schedule/space/split.hpp"

namespace gantry {

/// Forms that take the largest rank for all ranks, and all links for alike. They rank schedules;
/// they do not predict.
class Estimator {
 public:
  Estimator(const OperatorSplit& split, const ScheduleCosts& costs) noexcept;

  [[nodiscard]] double seconds_of_schedule(const Schedule& schedule) const noexcept;
  [[nodiscard]] const ScheduleCosts& costs() const noexcept { return costs_; }
  [[nodiscard]] unsigned ranks() const noexcept { return static_cast<unsigned>(ranks_); }
  [[nodiscard]] double whole_product_s() const noexcept;
  /// Of all that a rank gets or gives, each peer's part in one transfer, straight to it.
  [[nodiscard]] double transfer_s() const noexcept;
  /// How many times as long a product takes in pieces as whole.
  [[nodiscard]] double decomposition(const Schedule& schedule) const noexcept;
  /// What one piece takes on a link, without its start.
  [[nodiscard]] double piece_s(const Schedule& schedule) const noexcept;
  [[nodiscard]] double link_start_s() const noexcept;

 private:
  [[nodiscard]] double product(double m, double n, double k, double adding) const noexcept;
  [[nodiscard]] double steps_of(const Schedule& schedule) const noexcept;
  /// A product of `blocks` blocks in pieces of this schedule, of which `together` are one.
  [[nodiscard]] double pieces_s(const Schedule& schedule, double blocks,
                                double together) const noexcept;
  [[nodiscard]] double products_s(const Schedule& schedule) const noexcept;
  [[nodiscard]] double copies_s(const Schedule& schedule) const noexcept;
  [[nodiscard]] double links_s(const Schedule& schedule) const noexcept;
  /// At one end, of one piece.
  [[nodiscard]] double cpu_of_piece_s(const Schedule& schedule) const noexcept;
  [[nodiscard]] double on_cpus(const Schedule& schedule, double products,
                               double seconds) const noexcept;

  const ScheduleCosts& costs_;
  double ranks_;
  double block_;    // rows of one rank for another
  double rows_;     // that a rank multiplies in all
  double columns_;  // of its product
  double depth_;    // of its product
  double moved_;    // columns of what moves
  double bytes_;    // of an element
  bool comes_in_;
  bool is_exchange_;
};

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
