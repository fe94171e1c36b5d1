#pragma once  // schedule/collective/expander.hpp: makes a plan of a program.

#include <unordered_map>

#include "schedule/collective/evaluator.hpp"

namespace gantry::collective {

/// A label with its indexes.
struct LabelKey {
  std::uint32_t label = 0;
  std::array<Number, kMostIndexes> index{};
  friend bool operator==(const LabelKey&, const LabelKey&) = default;
};

/// Runs a script for one shape. Used once.
class Expander {
 public:
  /// Both must outlive it.
  Expander(const Script& script, const CollectiveShape& shape);

  /// Errors: `invalid_argument`, `too_large`: "line 7: what".
  [[nodiscard]] Result<Plan> run();
  /// An error of the plan's checks, "step 3 (...): what", with the line that made the step in
  /// front.
  [[nodiscard]] Error with_line(Error error) const;

 private:
  struct HashOfKey {
    std::size_t operator()(const LabelKey& key) const noexcept;
  };
  /// A step that waits for a label which had not been reached.
  struct Pending {
    unsigned step = 0;
    unsigned line = 0;
    LabelKey label;
  };

  [[nodiscard]] Result<void> run_block(const std::vector<Statement>& block);
  [[nodiscard]] Result<void> run_one(const Statement& statement);
  [[nodiscard]] Result<void> run_loop(const Statement& statement);
  /// Calls `what` for each value of the variable, or once if there is none.
  template <class What>
  [[nodiscard]] Result<void> each(const Over& over, What what);
  [[nodiscard]] Result<void> set_lanes(ExprId lanes);
  [[nodiscard]] Result<void> check_counts(ExprId counts);
  [[nodiscard]] Result<void> add_tensor(const TensorForm& form);
  [[nodiscard]] Result<void> add_value(const ValueForm& form, std::vector<PlanValue>& into);
  [[nodiscard]] Result<void> add_terms_of(const TermForm& form, PlanValue& value);
  [[nodiscard]] Result<PlanTerm> term_of(const TermForm& form);
  [[nodiscard]] Result<std::string> matrix_of(const IndexedName& name);
  [[nodiscard]] Result<void> add_step(const StepForm& form);
  [[nodiscard]] Result<PlanStep> step_of(const StepForm& form);
  [[nodiscard]] Result<void> add_waits_of(const WaitForm& form, PlanStep& step);
  [[nodiscard]] Result<void> add_wait(const WaitForm& form, PlanStep& step);
  [[nodiscard]] Result<void> resolve_pending();
  [[nodiscard]] Result<LabelKey> key_of(const IndexedName& label);
  [[nodiscard]] std::string text_of_key(const LabelKey& key) const;

  [[nodiscard]] Result<Number> number(ExprId id);
  [[nodiscard]] Result<unsigned> lane_of(ExprId id);
  [[nodiscard]] Result<unsigned> bounded(ExprId id, std::string_view what, Number least,
                                         Number most);
  [[nodiscard]] Result<PlanPlace> place_of(const PlaceForm& form);
  [[nodiscard]] Result<std::pair<Number, Number>> span_of(const Span& span, Number whole,
                                                          const PlaceForm& form);

  static constexpr std::uint32_t kDropped = ~std::uint32_t{0};

  const Script& script_;
  const CollectiveShape& shape_;
  Evaluator values_;
  Plan plan_;
  std::unordered_map<LabelKey, std::uint32_t, HashOfKey> steps_;  // or kDropped
  std::vector<Pending> pending_;
  std::vector<unsigned> lines_;  // of each step of the plan
  std::size_t terms_ = 0;
  std::size_t waits_ = 0;
  unsigned line_ = 0;
  bool has_counts_ = false;
};

}  // namespace gantry::collective
