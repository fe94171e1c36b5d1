#pragma once  // decision/ranking.hpp: the first k of items whose keys are known within bounds.

#include <vector>

#include "shape/decision/image.hpp"

namespace gantry::decision {

/// Ranks items by their keys, the largest first, of equals the lowest index first. The owner
/// narrows the keys of the items in candidates() until none is left to be narrowed.
class Ranking {
 public:
  struct Item {
    std::size_t index;
    CodeSpan keys;
    std::uint64_t guess;  ///< What the key probably is.
    bool unsettled = false;
  };

  /// `k` is at most `count`.
  Ranking(std::size_t count, std::size_t k);
  /// Of items with these indices, ascending.
  Ranking(const std::vector<std::size_t>& indices, std::size_t k);

  /// Those that may be among the first k; at least k.
  [[nodiscard]] std::vector<Item>& candidates() noexcept { return candidates_; }
  /// Drops those that are surely not; changes the order.
  void drop();
  /// Drops, orders and marks the items whose place among the candidates is not certain. True if
  /// there are none: then the candidates are the k in their order, and ordered() is the answer. Of
  /// those marked at least one has keys that are not exact.
  [[nodiscard]] bool settle();
  /// The indices of the candidates in the order that settle() has made.
  [[nodiscard]] std::vector<std::size_t> ordered() const;
  /// The indices of the first k, if every key is its guess.
  [[nodiscard]] std::vector<std::size_t> guess() { return by_guess(k_); }
  /// Those of all candidates.
  [[nodiscard]] std::vector<std::size_t> by_guess() { return by_guess(candidates_.size()); }

 private:
  [[nodiscard]] std::vector<std::size_t> by_guess(std::size_t count);

  std::size_t k_;
  std::vector<Item> candidates_;
};

}  // namespace gantry::decision
