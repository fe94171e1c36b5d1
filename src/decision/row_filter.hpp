#pragma once  // decision/row_filter.hpp: rows that are surely far away, by the bounds of their
              // groups.

#include <cstddef>
#include <span>

namespace gantry::decision {

/// Squared distances from `query` of each of `rows` as far as bounds tell: no distance is below
/// `least`; in the order of `likely` they probably are, whose numbers say nothing else. `bounds`:
/// of each row's groups the codes of the least and of the largest element, as in planes; `group` is
/// a multiple of 8 and divides the query.
void bound_distances(float* least, float* likely, const std::byte* bounds, std::size_t rows,
                     std::span<const float> query, std::size_t group);

}  // namespace gantry::decision
