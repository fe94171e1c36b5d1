#pragma once  // reshape/reshape_error.hpp: how far a reshape may be from exact.

#include <gantry/shape.hpp>

namespace gantry::shape {

/// By the two types alone; `scales`: values are multiplied and added to before.
[[nodiscard]] ReshapeError error_between(DataType to, DataType from, bool scales) noexcept;

}  // namespace gantry::shape
