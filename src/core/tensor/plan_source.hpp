#pragma once  // tensor/plan_source.hpp: whether what is handed to a plan is its source.

#include <gantry/types.hpp>

namespace gantry::shape {

/// The same numbers at the same places.
[[nodiscard]] bool is_alike(const Tensor& plan, const Tensor& other) noexcept;

/// So many bytes may lie behind a tensor's last row: as many as between two of them. Groups lie
/// without gaps.
[[nodiscard]] Bytes gap_behind(const Tensor& tensor) noexcept;

/// Type and shape, for people: "f32 [2, 3]".
[[nodiscard]] std::string text_of(const Tensor& tensor);
/// The error of a segment of `bytes` that is too small for its tensor.
[[nodiscard]] Error does_not_fit(const Tensor& tensor, Bytes bytes);

}  // namespace gantry::shape
