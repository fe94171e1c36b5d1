#pragma once  // bench/overlap/values.hpp: what the tensors of a plan hold, and what they have to.

#include <gantry/plan.hpp>

namespace gantry::bench {

/// An element of a whole matrix: a small whole number, so that sums of products are exact.
[[nodiscard]] float element_of(const std::string& matrix, std::int64_t row, std::int64_t col);

/// Zeros everywhere, then what the plan says is given to that rank. Tensors are f32.
void store_given(const Plan& plan, const PlanBuffers& buffers, unsigned rank);

/// What a rank has to have in the end, computed from the whole matrices, in one product for each
/// term.
class Wanted {
 public:
  [[nodiscard]] static Result<Wanted> of(const Plan& plan, unsigned rank, GemmLibrary& gemm);
  /// Errors: `system` with the first element that differs.
  [[nodiscard]] Result<void> compare(const Plan& plan, const PlanBuffers& buffers) const;

 private:
  struct Block {
    PlanPlace place;
    std::vector<float> values;
  };
  std::vector<Block> blocks_;
};

}  // namespace gantry::bench
