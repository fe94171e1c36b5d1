#pragma once  // schedule/collective/evaluator.hpp: what expressions come to.

#include <gantry/schedule/collective.hpp>
#include <optional>

#include "schedule/collective/script.hpp"

namespace gantry::collective {

/// Evaluates the expressions of a script on the values of its variables.
///   I1  Behind the first failure every value is 0 and no loop goes on; error() tells it.
class Evaluator {
 public:
  /// `predefined`: the values of the variables that every program has. The script and the counts
  /// must outlive it.
  Evaluator(const Script& script, const std::vector<Number>& counts, std::vector<Number> predefined)
      : script_(script), counts_(counts), slots_(std::move(predefined)) {
    slots_.resize(script.slots);
  }

  [[nodiscard]] Number value_of(ExprId id);
  [[nodiscard]] Number& slot(std::uint32_t index) noexcept { return slots_[index]; }
  /// Counts a turn of a loop, or whatever else takes time. False: it has failed.
  bool spend(std::size_t work = 1);
  [[nodiscard]] bool has_failed() const noexcept { return error_.has_value(); }
  [[nodiscard]] Result<void> result() const;

 private:
  [[nodiscard]] Number unary(const Expr& node);
  [[nodiscard]] Number binary(const Expr& node);
  [[nodiscard]] Number arithmetic(Op op, Number a, Number b);
  [[nodiscard]] Number quotient(Op op, Number a, Number b);
  [[nodiscard]] Number call(const Expr& node);
  [[nodiscard]] Number over(const Expr& node);
  [[nodiscard]] Number count(Number index);
  [[nodiscard]] Number slice(const Expr& node);
  Number fail_with(Code code, std::string what, std::string hint = {});

  const Script& script_;
  const std::vector<Number>& counts_;
  std::vector<Number> slots_;
  std::size_t work_ = 0;
  std::optional<Error> error_;
};

}  // namespace gantry::collective
