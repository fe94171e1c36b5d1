#pragma once  // scan.hpp: what a search is compared with: all rows are read, in vectors.

#include <span>
#include <vector>

#include "layout.hpp"

namespace search {

struct Neighbour {
  double distance;  ///< Squared.
  std::size_t row;
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

/// As Decision::nearest() says: of doubles, added from the first element to the last.
[[nodiscard]] double distance_of(const float* row, const float* query);

/// The `nearest` rows, the nearest first, of equals the lowest row first. Distances are of floats,
/// summed in vectors; only rows that may be among the nearest by these get one of doubles.
[[nodiscard]] std::vector<Neighbour> scan(std::span<const float> rows, const float* query,
                                          std::size_t nearest);

}  // namespace search
