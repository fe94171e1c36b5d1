#pragma once  // schedule/program/test_collectives.hpp: what collectives come to, said once more.

#include <gantry/collectives.hpp>
#include <map>
#include <set>
#include <tuple>

#include "ranks/schedule/test_plans.hpp"

namespace gantry::test {

/// An element of a rank's tensor, which has one row.
using Cell = std::tuple<unsigned, std::string, std::int64_t>;
/// Elements of matrices that have one row.
using Sum = std::set<std::pair<std::string, std::int64_t>>;
using Cells = std::map<Cell, Sum>;

/// What there is at first, and what there has to be in the end, element by element.
struct Reference {
  Cells given;
  Cells wanted;
};

/// Does not look at the program: it loops over the elements.
class ReferenceMaker {
 public:
  explicit ReferenceMaker(const CollectiveShape& shape) : shape_(shape) {}

  Reference make(const std::string& name) {
    if (name.starts_with("all-gather")) gather();
    if (name.starts_with("reduce-scatter")) reduce(false);
    if (name.starts_with("all-reduce")) reduce(true);
    if (name == "all-to-all") exchange();
    if (name == "all-to-all-counts") exchange_counts();
    if (name.starts_with("broadcast")) broadcast();
    return std::move(made_);
  }

 private:
  static std::string matrix(unsigned rank) { return "X_" + std::to_string(rank); }
  /// Whose piece an element is in, and where that piece begins.
  std::pair<unsigned, std::int64_t> owner_of(std::int64_t at) const {
    const auto all = borders(shape_.size, shape_.ranks);
    unsigned owner = 0;
    while (all[owner + 1] <= at) ++owner;
    return {owner, all[owner]};
  }
  void gather() {
    for (std::int64_t j = 0; j < shape_.size; ++j) {
      const auto [owner, first] = owner_of(j);
      made_.given[{owner, "x", j}] = {{matrix(owner), j - first}};
      for (unsigned r = 0; r < shape_.ranks; ++r)
        made_.wanted[{r, "x", j}] = {{matrix(owner), j - first}};
    }
  }
  void reduce(bool is_for_all) {
    for (std::int64_t j = 0; j < shape_.size; ++j)
      for (unsigned r = 0; r < shape_.ranks; ++r) {
        made_.given[{r, "x", j}] = {{matrix(r), j}};
        if (!is_for_all && owner_of(j).first != r) continue;
        for (unsigned q = 0; q < shape_.ranks; ++q) made_.wanted[{r, "x", j}].emplace(matrix(q), j);
      }
  }
  void exchange() {
    for (unsigned r = 0; r < shape_.ranks; ++r) {
      std::vector<std::int64_t> taken(shape_.ranks);
      for (std::int64_t j = 0; j < shape_.size; ++j) {
        made_.given[{r, "x", j}] = {{matrix(r), j}};
        const unsigned q = owner_of(j).first;
        const auto all = borders(shape_.size, shape_.ranks);
        made_.wanted[{q, "y", r * (all[q + 1] - all[q]) + taken[q]++}] = {{matrix(r), j}};
      }
    }
  }
  void exchange_counts() {
    std::vector<std::int64_t> arrived(shape_.ranks);
    for (unsigned r = 0; r < shape_.ranks; ++r) {
      std::int64_t j = 0;
      for (unsigned q = 0; q < shape_.ranks; ++q)
        for (std::int64_t k = 0; k < shape_.counts[r * shape_.ranks + q]; ++k, ++j) {
          made_.given[{r, "x", j}] = {{matrix(r), j}};
          made_.wanted[{q, "y", arrived[q]++}] = {{matrix(r), j}};
        }
    }
  }
  void broadcast() {
    for (std::int64_t j = 0; j < shape_.size; ++j) {
      made_.given[{shape_.root, "x", j}] = {{"X", j}};
      for (unsigned r = 0; r < shape_.ranks; ++r) made_.wanted[{r, "x", j}] = {{"X", j}};
    }
  }

  const CollectiveShape& shape_;
  Reference made_;
};

/// The values of a plan, element by element. An element that is said twice is there as nothing.
inline Cells cells_of(const Plan& plan, const std::vector<PlanValue>& values) {
  Cells cells;
  for (const PlanValue& value : values)
    for (std::int64_t j = 0; j < value.place.rect.cols; ++j) {
      const std::int64_t at = value.place.rect.col + j;
      Sum sum;
      for (const PlanTerm& term : value.sum)
        if (term.row == 0 && term.right.empty()) sum.emplace(term.left, at + term.col);
      const Cell cell{value.place.rank, plan.tensors[value.place.tensor].name, at};
      if (!cells.emplace(cell, sum).second) cells[cell] = {};
    }
  return cells;
}

/// A shape for a program: counts for those that take them.
inline CollectiveShape shape_for(const std::string& name, unsigned ranks, std::int64_t size,
                                 std::int64_t chunks, Random& random) {
  CollectiveShape shape{.ranks = ranks, .size = size, .type = kPlanType, .chunks = chunks};
  if (name != "all-to-all-counts") return shape;
  std::vector<std::int64_t> has(ranks);
  std::vector<std::int64_t> gets(ranks);
  for (unsigned r = 0; r < ranks; ++r)
    for (unsigned q = 0; q < ranks; ++q) {
      const std::int64_t most = std::min(size - has[r], size - gets[q]);
      const std::int64_t count = pick(random, 0, std::min<std::int64_t>(most, 5));
      shape.counts.push_back(count);
      has[r] += count;
      gets[q] += count;
    }
  return shape;
}

}  // namespace gantry::test
