#pragma once  // tensor/groups.hpp: how groups are written down in a DataType.

#include <gantry/types.hpp>

namespace gantry::shape {

/// Bytes of one group.
[[nodiscard]] Bytes bytes_of(const Groups& groups) noexcept;

}  // namespace gantry::shape
