#include "shape/decision/ranking.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace gantry::decision {
namespace {

using Item = Ranking::Item;

bool by_least(const Item& a, const Item& b) noexcept {
  return a.keys.lo != b.keys.lo ? a.keys.lo > b.keys.lo : a.index < b.index;
}

bool surely_before(const Item& a, const Item& b) noexcept {
  return b.keys.hi != a.keys.lo ? b.keys.hi < a.keys.lo : a.index < b.index;
}

}  // namespace

Ranking::Ranking(std::size_t count, std::size_t k) : k_(k) {
  candidates_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) candidates_.push_back({i, {0, ~std::uint64_t{0}}, 0});
}

Ranking::Ranking(const std::vector<std::size_t>& indices, std::size_t k) : k_(k) {
  candidates_.reserve(indices.size());
  for (const std::size_t index : indices) candidates_.push_back({index, {0, ~std::uint64_t{0}}, 0});
}

void Ranking::drop() {
  GANTRY_DEBUG_ASSERT(k_ > 0);
  GANTRY_DEBUG_ASSERT(k_ <= candidates_.size());
  const auto kth = candidates_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
  std::nth_element(candidates_.begin(), kth, candidates_.end(), by_least);
  candidates_.erase(std::remove_if(kth + 1, candidates_.end(),
                                   [last = *kth](const Item& b) { return surely_before(last, b); }),
                    candidates_.end());
}

// In the order of by_least() an item's place is certain if all that follow are surely behind it and
// those before surely before it. Of those before the last one is enough: its least key is the
// smallest, and of equal ones its index is the highest.
bool Ranking::settle() {
  drop();
  std::sort(candidates_.begin(), candidates_.end(), by_least);
  bool settled = true;
  const Item* follows = nullptr;  // the one of those behind with the largest key, lowest index
  for (std::size_t i = candidates_.size(); i-- > 0;) {
    Item& item = candidates_[i];
    item.unsettled = (follows != nullptr && !surely_before(item, *follows)) ||
                     (i > 0 && !surely_before(candidates_[i - 1], item));
    settled = settled && !item.unsettled;
    if (follows == nullptr || item.keys.hi > follows->keys.hi ||
        (item.keys.hi == follows->keys.hi && item.index < follows->index))
      follows = &item;
  }
  return settled;
}

std::vector<std::size_t> Ranking::ordered() const {
  std::vector<std::size_t> indices;
  indices.reserve(candidates_.size());
  for (const Item& item : candidates_) indices.push_back(item.index);
  return indices;
}

std::vector<std::size_t> Ranking::by_guess(std::size_t count) {
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(candidates_.begin(), end, candidates_.end(), [](const Item& a, const Item& b) {
    return a.guess != b.guess ? a.guess > b.guess : a.index < b.index;
  });
  std::vector<std::size_t> first;
  for (auto at = candidates_.begin(); at != end; ++at) first.push_back(at->index);
  return first;
}

}  // namespace gantry::decision
