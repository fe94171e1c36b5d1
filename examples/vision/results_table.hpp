#pragma once  // results_table.hpp: one row per tile, as comma-separated values.

#include "messages.hpp"

namespace vision {

class ResultsTable {
 public:
  void add(std::span<const TileResult> tiles);

  /// Header and rows, sorted by frame, y, x. `people` is empty where nobody looked.
  [[nodiscard]] std::string csv() const;

 private:
  std::vector<TileResult> rows_;
};

}  // namespace vision
