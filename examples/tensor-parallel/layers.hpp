#pragma once  // layers.hpp: the two layers, as one rank sees them.

#include <gantry/product.hpp>

#include "options.hpp"

namespace tensor_parallel {

/// activation(X W1) W2 with the products' schedules. A rank has rows of X, columns of W1 and the
/// rows of W2 that belong to them; it gets rows of the result. The group must outlive it.
class Layers {
 public:
  /// Every rank calls it. `schedule`: of both products; none: chosen, by costs that are measured.
  [[nodiscard]] static gantry::Result<Layers> prepare(
      gantry::Group& group, const Options& options, std::optional<gantry::Schedule> schedule,
      const std::shared_ptr<gantry::GemmLibrary>& gemm);

  /// Every rank calls it.
  [[nodiscard]] gantry::Result<void> run();
  [[nodiscard]] gantry::MatrixPart result() const { return second_.c(); }

  [[nodiscard]] const gantry::ShardedProduct& first() const noexcept { return first_; }
  [[nodiscard]] const gantry::ShardedProduct& second() const noexcept { return second_; }

 private:
  Layers(Activation activation, gantry::ShardedProduct first, gantry::ShardedProduct second)
      : activation_(activation), first_(std::move(first)), second_(std::move(second)) {}

  Activation activation_;
  gantry::ShardedProduct first_;   // column-parallel: X is gathered
  gantry::ShardedProduct second_;  // row-parallel: the sums are scattered
};

}  // namespace tensor_parallel
