#pragma once  // bench/overlap/work.hpp: what the ranks of this benchmark do when told to.

#include <gantry/schedule/overlap.hpp>
#include <variant>

namespace gantry::bench {

/// A product of one rank alone.
struct ProductWork {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool adds = false;
};

/// A plan that all ranks run.
struct PlanWork {
  Plan plan;
};

using Work = std::variant<PlanWork, ProductWork>;

/// Only the products of a plan: each has its operands.
[[nodiscard]] Plan products_of(const Plan& plan);
/// Only its transfers: each has what it sends.
[[nodiscard]] Plan transfers_of(const Plan& plan);
/// `bytes` from each rank to the next one, `count` times, one after another.
[[nodiscard]] Plan round_of_puts(unsigned ranks, std::int64_t elements, unsigned count);

}  // namespace gantry::bench
