#pragma once  // decision/row_filter.hpp: rows that are surely far away, by the bounds of their
              // groups.

#include <cstddef>
#include <span>

namespace gantry::decision {

/// Numbers of f32 that no squared distance from `query` is below, for each of `rows`. `bounds`: of
/// each row's groups the codes of the least and of the largest element, as in planes; `group` is a
/// multiple of 8 and divides the query.
void least_distances(float* to, const std::byte* bounds, std::size_t rows,
                     std::span<const float> query, std::size_t group) noexcept;

}  // namespace gantry::decision
