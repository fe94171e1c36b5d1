#pragma once  // layout.hpp: what both programs know of the messages between them.

#include <gantry/shape.hpp>

namespace search {

inline constexpr std::size_t kWidth = 64;  ///< Elements of a descriptor, fp32.
inline constexpr std::size_t kMostRows = 50'000'000;

/// Planes of all descriptors, with the bounds of every 8 elements in front: the search reads these
/// bounds and little else.
inline constexpr gantry::Planes kPlanes{gantry::Planes::Unit::bytes, 0, 8};

[[nodiscard]] inline gantry::Tensor tensor_of(std::size_t rows) {
  const std::int64_t sides[] = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(kWidth)};
  return gantry::Tensor::dense(gantry::types::f32, sides);
}

}  // namespace search
