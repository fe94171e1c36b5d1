#include "ranks/schedule/run/rank_script.hpp"

namespace gantry {

RankScript::RankScript(const Plan& plan, unsigned rank, bool has_device)
    : rank_(rank),
      has_device_(has_device),
      item_of_step_(plan.steps.size()),
      comes_(plan.steps.size()),
      waiting_(plan.steps.size()) {
  add_items(plan);
  add_arrivals(plan);
  add_waits(plan);
}

void RankScript::add_items(const Plan& plan) {
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.rank != rank_) continue;
    item_of_step_[i] = static_cast<std::uint32_t>(items_.size());
    switch (step.verb) {
      case PlanVerb::put:
      case PlanVerb::signal:
        items_.push_back({i, Queue::out, step.to.rank});
        break;
      case PlanVerb::get:
        items_.push_back({i, Queue::in, step.from.rank});
        break;
      case PlanVerb::barrier:
        items_.push_back({i, Queue::meet});
        items_.push_back({i, Queue::met, 0, 1});
        items_[item_of_step_[i]].next.push_back({item_of_step_[i] + 1, false});
        break;
      case PlanVerb::gemm:
        items_.push_back({i, has_device_ ? Queue::device : Queue::compute});
        break;
      default:
        items_.push_back({i, Queue::compute});
    }
  }
}

void RankScript::add_arrivals(const Plan& plan) {
  std::vector<std::uint32_t> own_barriers;
  for (const Item& item : items_)
    if (item.queue == Queue::met)
      own_barriers.push_back(static_cast<std::uint32_t>(&item - items_.data()));
  std::vector<std::size_t> turns(plan.ranks);
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.rank == rank_) continue;
    const bool is_to_us =
        (step.verb == PlanVerb::put || step.verb == PlanVerb::signal) && step.to.rank == rank_;
    const bool is_from_us = step.verb == PlanVerb::get && step.from.rank == rank_;
    const bool is_barrier = step.verb == PlanVerb::barrier;
    comes_[i] = is_to_us || is_from_us || is_barrier;
    if (comes_[i]) arrivals_.push_back(i);
    if (!is_barrier) continue;
    const std::uint32_t end = own_barriers[turns[step.rank]++];  // the check saw that it has one
    item_of_step_[i] = end - 1;
    waiting_[i].push_back(end);
    ++items_[end].awaits;
  }
}

std::uint32_t RankScript::end_of(std::uint32_t step) const noexcept {
  const std::uint32_t item = item_of_step_[step];
  return items_[item].queue == Queue::meet ? item + 1 : item;
}

void RankScript::wait_for_own(std::uint32_t earlier_step, std::uint32_t item) {
  Item& later = items_[item];
  Item& earlier = items_[end_of(earlier_step)];
  const bool is_in_order = earlier.queue == later.queue &&
                           (earlier.queue == Queue::compute || earlier.queue == Queue::device ||
                            (earlier.queue == Queue::out && earlier.peer == later.peer));
  earlier.next.push_back({item, is_in_order});
  ++later.awaits;
}

void RankScript::add_waits(const Plan& plan) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> last_of_lane(plan.lanes, kNone);
  std::uint32_t last_on_device = kNone;
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.rank != rank_) continue;
    const std::uint32_t item = item_of_step_[i];
    if (last_of_lane[step.lane] != kNone) wait_for_own(last_of_lane[step.lane], item);
    last_of_lane[step.lane] = i;
    // What crosses between host and device was found for products in this order.
    if (items_[item].queue == Queue::device) {
      if (last_on_device != kNone) wait_for_own(last_on_device, item);
      last_on_device = i;
    }
    for (const unsigned awaited : step.after) {
      const PlanStep& earlier = plan.steps[awaited];
      if (earlier.rank == rank_ || earlier.verb == PlanVerb::barrier) {
        wait_for_own(awaited, item);
      } else if (comes_[awaited]) {
        waiting_[awaited].push_back(item);
        ++items_[item].awaits;
      }
    }
  }
}

}  // namespace gantry
