#pragma once  // schedule/test_plans.hpp: plans to try, and what they come to when they are run.

#include <algorithm>
#include <map>
#include <random>

#include "ranks/schedule/plan.hpp"

namespace gantry::test {

using Random = std::mt19937_64;

inline std::int64_t pick(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

/// Where the pieces of `size` in `count` begin; one more for the end. Some may be empty.
inline std::vector<std::int64_t> borders(std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i <= count; ++i) all.push_back(size * i / count);
  return all;
}

inline constexpr DataType kPlanType{DataType::signed_int, 64, 1};

/// A plan in the making.
struct Draftsman {
  Plan plan{};
  Random& random;

  unsigned lane() { return static_cast<unsigned>(pick(random, 0, plan.lanes - 1)); }
  unsigned add(PlanStep step) {
    plan.steps.push_back(std::move(step));
    return static_cast<unsigned>(plan.steps.size() - 1);
  }
};

/// C = A * B on every rank. Each has some rows of A, and all of B. Pieces go from rank to rank, or
/// to all at once, and are multiplied as they come.
inline Plan gather_plan(Random& random) {
  Draftsman made{.random = random};
  Plan& plan = made.plan;
  plan.ranks = static_cast<unsigned>(pick(random, 1, 4));
  plan.lanes = static_cast<unsigned>(pick(random, 1, 3));
  const std::int64_t m = pick(random, 0, 9);
  const std::int64_t n = pick(random, 1, 4);
  const std::int64_t k = pick(random, 1, 4);
  const bool is_ring = pick(random, 0, 1) == 1;
  const std::int64_t chunks = pick(random, 1, 3);
  plan.about = is_ring ? "all-gather by a ring" : "all-gather at once";
  plan.tensors = {{"a", m, k, kPlanType}, {"b", k, n, kPlanType}, {"c", m, n, kPlanType}};
  const auto shards = borders(m, plan.ranks);
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    plan.given.push_back(
        {{rank, 0, {shards[rank], 0, shards[rank + 1] - shards[rank], k}}, {{"A"}}});
    plan.given.push_back({{rank, 1, {0, 0, k, n}}, {{"B"}}});
    plan.wanted.push_back({{rank, 2, {0, 0, m, n}}, {{"A", "B", 0, 0, 0, k}}});
  }
  const auto columns = borders(n, pick(random, 1, 2));
  const auto multiply = [&](unsigned rank, const PlanRect& rows,
                            const std::vector<unsigned>& after) {
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) {
      const std::int64_t first = columns[i];
      const std::int64_t width = columns[i + 1] - first;
      made.add({PlanVerb::gemm,
                rank,
                made.lane(),
                {rank, 2, {rows.row, first, rows.rows, width}},
                {rank, 0, rows},
                {rank, 1, {0, first, k, width}},
                false,
                after});
    }
  };
  for (unsigned owner = 0; owner < plan.ranks; ++owner) {
    const auto pieces = borders(shards[owner + 1] - shards[owner], chunks);
    for (std::size_t piece = 0; piece + 1 < pieces.size(); ++piece) {
      const PlanRect rows{shards[owner] + pieces[piece], 0, pieces[piece + 1] - pieces[piece], k};
      multiply(owner, rows, {});
      std::vector<unsigned> after;
      for (unsigned hop = 1; hop < plan.ranks; ++hop) {
        const unsigned to = (owner + hop) % plan.ranks;
        const unsigned from = is_ring ? (owner + hop - 1) % plan.ranks : owner;
        const unsigned sent = made.add(
            {PlanVerb::put, from, made.lane(), {to, 0, rows}, {from, 0, rows}, {}, false, after});
        multiply(to, rows, {sent});
        if (is_ring) after = {sent};
      }
    }
  }
  return plan;
}

/// What is left of C's sums at each rank goes to whose rows they are, and is added there: by way of
/// a place of its own, or of one for all (tensor 3). `products`: a step of each rank.
inline void add_exchange(Draftsman& made, const std::vector<unsigned>& products,
                         const std::vector<std::int64_t>& shards, std::int64_t n, bool is_reused) {
  const std::int64_t m = shards.back();
  for (unsigned to = 0; to < made.plan.ranks; ++to) {
    unsigned previous = products[to];
    for (unsigned rank = 0; rank < made.plan.ranks; ++rank) {
      if (to == rank) continue;
      const PlanRect theirs{shards[to], 0, shards[to + 1] - shards[to], n};
      const PlanRect place{(is_reused ? 0 : m * rank) + theirs.row, 0, theirs.rows, n};
      std::vector<unsigned> after = {products[rank]};
      // The place is free when what came there before has been added.
      if (is_reused && previous != products[to])
        after.push_back(made.add(
            {PlanVerb::signal, to, made.lane(), {rank, 0, {}}, {}, {}, false, {previous}}));
      const unsigned sent = made.add(
          {PlanVerb::put, rank, made.lane(), {to, 3, place}, {rank, 2, theirs}, {}, false, after});
      previous = made.add({PlanVerb::reduce,
                           to,
                           made.lane(),
                           {to, 2, theirs},
                           {to, 3, place},
                           {},
                           false,
                           {sent, previous}});
    }
  }
}

/// C = the sum over ranks of A_r * B_r, of which each rank has some rows in the end. Each has some
/// columns of A and rows of B.
inline Plan scatter_plan(Random& random) {
  Draftsman made{.random = random};
  Plan& plan = made.plan;
  plan.ranks = static_cast<unsigned>(pick(random, 1, 4));
  plan.lanes = static_cast<unsigned>(pick(random, 1, 3));
  const std::int64_t m = pick(random, 0, 9);
  const std::int64_t n = pick(random, 1, 4);
  const std::int64_t k = pick(random, plan.ranks, 8);
  const bool is_reused = pick(random, 0, 1) == 1;
  plan.about = is_reused ? "reduce-scatter through one place" : "reduce-scatter at once";
  plan.tensors = {{"a", m, k, kPlanType},
                  {"b", k, n, kPlanType},
                  {"c", m, n, kPlanType},
                  {"t", m * plan.ranks, n, kPlanType}};
  const auto depths = borders(k, plan.ranks);
  const auto shards = borders(m, plan.ranks);
  std::vector<unsigned> products;
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    const std::int64_t first = depths[rank];
    const std::int64_t depth = depths[rank + 1] - first;
    plan.given.push_back({{rank, 0, {0, first, m, depth}}, {{"A"}}});
    plan.given.push_back({{rank, 1, {first, 0, depth, n}}, {{"B"}}});
    plan.wanted.push_back({{rank, 2, {shards[rank], 0, shards[rank + 1] - shards[rank], n}},
                           {{"A", "B", 0, 0, 0, k}}});
    products.push_back(made.add({PlanVerb::gemm,
                                 rank,
                                 made.lane(),
                                 {rank, 2, {0, 0, m, n}},
                                 {rank, 0, {0, first, m, depth}},
                                 {rank, 1, {first, 0, depth, n}},
                                 false,
                                 {}}));
  }
  add_exchange(made, products, shards, n, is_reused);
  return plan;
}

/// An element of a whole matrix: any number, always the same.
inline std::int64_t cell(const std::string& matrix, std::int64_t row, std::int64_t col) {
  Random random(std::hash<std::string>()(matrix) ^ static_cast<std::uint64_t>(row * 1009 + col));
  return pick(random, -99, 99);
}
/// What element (i, j) of the value's place is.
inline std::int64_t evaluate(const PlanValue& value, std::int64_t i, std::int64_t j) {
  const std::int64_t row = value.place.rect.row + i;
  const std::int64_t col = value.place.rect.col + j;
  std::int64_t sum = 0;
  for (const PlanTerm& term : value.sum) {
    if (term.right.empty()) sum += cell(term.left, row + term.row, col + term.col);
    for (std::int64_t k = term.first; k < term.last && !term.right.empty(); ++k)
      sum += cell(term.left, row + term.row, k) * cell(term.right, k, col + term.col);
  }
  return sum;
}

/// Runs plans on numbers, one step at a time, in any order that lanes, `after` and barriers leave.
class PlanRunner {
 public:
  PlanRunner(const Plan& plan, Random& random) : plan_(plan), random_(random) {
    for (unsigned rank = 0; rank < plan.ranks; ++rank)
      for (const PlanTensor& tensor : plan.tensors) {
        auto& cells = memory_.emplace_back(static_cast<std::size_t>(tensor.rows * tensor.cols));
        for (std::int64_t& cell : cells) cell = pick(random, -1000, 1000);  // left over
      }
    for (const PlanValue& value : plan.given) store(value);
    std::map<std::pair<unsigned, unsigned>, unsigned> last;  // of each rank's lane
    for (unsigned i = 0; i < plan.steps.size(); ++i) {
      const auto lane = std::pair(plan.steps[i].rank, plan.steps[i].lane);
      const auto [at, is_first] = last.try_emplace(lane, i);
      previous_.push_back(is_first ? i : std::exchange(at->second, i));
    }
  }
  /// False: steps are left that never may begin.
  bool run() {
    std::vector<bool> is_done(plan_.steps.size());
    std::vector<unsigned> left;
    for (unsigned i = 0; i < plan_.steps.size(); ++i) left.push_back(i);
    while (!left.empty()) {
      std::vector<unsigned> ready;
      for (const unsigned i : left)
        if (may_begin(i, is_done)) ready.push_back(i);
      std::vector<unsigned> next;
      if (auto barriers = whole_turn(ready, left); !barriers.empty()) next = std::move(barriers);
      std::erase_if(ready, [&](unsigned i) { return plan_.steps[i].verb == PlanVerb::barrier; });
      if (!ready.empty() && (next.empty() || pick(random_, 0, 1) == 1))
        next = {ready[static_cast<std::size_t>(
            pick(random_, 0, static_cast<std::int64_t>(ready.size()) - 1))]};
      if (next.empty()) return false;
      for (const unsigned i : next) {
        take(plan_.steps[i]);
        is_done[i] = true;
        std::erase(left, i);
      }
    }
    return true;
  }
  [[nodiscard]] bool has_what_is_wanted() {
    for (const PlanValue& value : plan_.wanted)
      for (std::int64_t i = 0; i < value.place.rect.rows; ++i)
        for (std::int64_t j = 0; j < value.place.rect.cols; ++j)
          if (at(value.place, i, j) != evaluate(value, i, j)) return false;
    return true;
  }

 private:
  std::int64_t& at(const PlanPlace& place, std::int64_t i, std::int64_t j) {
    const PlanTensor& tensor = plan_.tensors[place.tensor];
    const auto row = place.rect.row + i;
    const auto col = place.rect.col + j;
    return memory_[place.rank * plan_.tensors.size() + place.tensor]
                  [static_cast<std::size_t>(row * tensor.cols + col)];
  }
  void store(const PlanValue& value) {
    for (std::int64_t i = 0; i < value.place.rect.rows; ++i)
      for (std::int64_t j = 0; j < value.place.rect.cols; ++j)
        at(value.place, i, j) = evaluate(value, i, j);
  }
  bool may_begin(unsigned i, const std::vector<bool>& is_done) {
    for (const unsigned awaited : plan_.steps[i].after)
      if (!is_done[awaited]) return false;
    return previous_[i] == i || is_done[previous_[i]];
  }
  /// The next barrier of every rank, if all have come to it.
  std::vector<unsigned> whole_turn(const std::vector<unsigned>& ready,
                                   const std::vector<unsigned>& left) {
    std::map<unsigned, unsigned> next;  // of each rank
    for (const unsigned i : left)
      if (plan_.steps[i].verb == PlanVerb::barrier) next.try_emplace(plan_.steps[i].rank, i);
    std::vector<unsigned> turn;
    for (const auto& [rank, i] : next)
      if (std::find(ready.begin(), ready.end(), i) != ready.end()) turn.push_back(i);
    return turn.size() == plan_.ranks ? turn : std::vector<unsigned>();
  }
  void take(const PlanStep& step) {
    if (step.verb == PlanVerb::signal || step.verb == PlanVerb::barrier) return;
    const PlanRect& rect = step.to.rect;
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < rect.rows; ++i)
      for (std::int64_t j = 0; j < rect.cols; ++j) result.push_back(value_of(step, i, j));
    for (std::int64_t i = 0; i < rect.rows; ++i)
      for (std::int64_t j = 0; j < rect.cols; ++j)
        at(step.to, i, j) = result[static_cast<std::size_t>(i * rect.cols + j)];
  }
  std::int64_t value_of(const PlanStep& step, std::int64_t i, std::int64_t j) {
    std::int64_t value = step.adds || step.verb == PlanVerb::reduce ? at(step.to, i, j) : 0;
    if (step.verb == PlanVerb::fill) return 0;
    if (step.verb != PlanVerb::gemm) return value + at(step.from, i, j);
    for (std::int64_t k = 0; k < step.from.rect.cols; ++k)
      value += at(step.from, i, k) * at(step.other, k, j);
    return value;
  }

  const Plan& plan_;
  Random& random_;
  std::vector<std::vector<std::int64_t>> memory_;  // of each rank's tensors
  std::vector<unsigned> previous_;  // of each step: the one before it in its lane, or itself
};

}  // namespace gantry::test
