#pragma once  // bench/overlap/work.hpp: what the ranks of this benchmark do when told to.

#include <gantry/plan.hpp>
#include <variant>

namespace gantry::bench {

/// All ranks measure what they cost, and prepare a product by that; rank 0 writes costs, and in
/// another file the schedule that was chosen and, in the second line, why.
struct CostsWork {
  OverlapOperator op;
  std::string costs_file;
  std::string choice_file;
};

/// A plan that all ranks run.
struct PlanWork {
  Plan plan;
};

using Work = std::variant<PlanWork, CostsWork>;

/// Only the products of a plan: each has its operands.
[[nodiscard]] Plan products_of(const Plan& plan);
/// Only its transfers: each has what it sends.
[[nodiscard]] Plan transfers_of(const Plan& plan);

}  // namespace gantry::bench
