#pragma once  // tensor/plan_source.hpp: whether what is handed to a plan is its source.

#include <gantry/types.hpp>

namespace gantry::shape {

/// The same numbers at the same places.
[[nodiscard]] bool is_alike(const Tensor& plan, const Tensor& other) noexcept;

/// So many bytes may lie behind a tensor's last row: as many as between two of them. Groups lie
/// without gaps.
[[nodiscard]] Bytes gap_behind(const Tensor& tensor) noexcept;

}  // namespace gantry::shape
