#pragma once  // bench/overlap/executor_ranks.hpp: one exchange, by a plan and by a loop.

#include <gantry/link.hpp>
#include <vector>

#include "../support/process/child.hpp"

namespace gantry::bench {

/// Two ranks. Each has rows of its own, and sends them piece by piece to the other one, which
/// multiplies each as it comes and says so.
struct Exchange {
  static constexpr unsigned kPieces = 32;

  std::int64_t rows = 0;  ///< Of a piece.
  std::int64_t depth = 0;
  std::int64_t cols = 0;

  [[nodiscard]] Bytes piece_bytes() const noexcept {
    return static_cast<Bytes>(rows * depth) * sizeof(float);
  }
  /// Of a rank: puts, products and signals.
  static constexpr unsigned kOperations = 3 * kPieces;
};

/// Two processes that do an exchange both ways over links of the same kind: a command's `warmups`
/// is 0 for the plan, 1 for the loop by hand.
class ExecutorRanks {
 public:
  [[nodiscard]] static Result<ExecutorRanks> start(LinkKind kind, const Exchange& exchange);
  [[nodiscard]] std::vector<Child>& children() noexcept { return children_; }

 private:
  std::vector<Child> children_;
};

}  // namespace gantry::bench
