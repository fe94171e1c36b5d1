#include "schedule/step_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/result.hpp"

namespace gantry {
namespace {

constexpr std::size_t kMostComparisons = std::size_t{1} << 30;  // of words of seen_

// Whether a rank learns that a step of another one has ended.
bool is_heard_by(const PlanStep& step, unsigned rank) noexcept {
  switch (step.verb) {
    case PlanVerb::put:
    case PlanVerb::signal:
      return step.rank == rank || step.to.rank == rank;
    case PlanVerb::get:
      return step.rank == rank || step.from.rank == rank;
    case PlanVerb::barrier:
      return true;
    default:
      return step.rank == rank;
  }
}

}  // namespace

Result<StepOrder> StepOrder::of(const Plan& plan) {
  StepOrder order;
  order.chains_ = std::size_t{plan.ranks} * plan.lanes;
  if (plan.steps.size() * order.chains_ > kMostStepsInLanes)  // words of seen_
    return fail(Code::too_large,
                fmt::format("a plan of {} steps in {} lanes", plan.steps.size(), order.chains_),
                fmt::format("steps times lanes may be {}", kMostStepsInLanes));
  GANTRY_TRY(order.join_barriers(plan));
  GANTRY_TRY(order.make_edges(plan));
  GANTRY_TRY(order.sort(plan));
  std::size_t edges = 0;
  for (const auto& before : order.before_) edges += before.size();
  if (edges > kMostComparisons / order.chains_)
    return fail(
        Code::too_large,
        fmt::format("steps that wait for {} others in all, in {} lanes", edges, order.chains_),
        fmt::format("waits times lanes may be {}", kMostComparisons));
  order.look_back();
  return order;
}

Result<void> StepOrder::join_barriers(const Plan& plan) {
  event_.resize(plan.steps.size());
  std::iota(event_.begin(), event_.end(), 0u);
  std::vector<std::vector<std::uint32_t>> barriers(plan.ranks);
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i)
    if (plan.steps[i].verb == PlanVerb::barrier) barriers[plan.steps[i].rank].push_back(i);
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    if (barriers[rank].size() != barriers[0].size())
      return fail(Code::invalid_argument,
                  fmt::format("rank {} has {} barriers, rank 0 has {}", rank, barriers[rank].size(),
                              barriers[0].size()));
    for (std::size_t turn = 0; turn < barriers[rank].size(); ++turn)
      event_[barriers[rank][turn]] = barriers[0][turn];
  }
  return {};
}

Result<void> StepOrder::make_edges(const Plan& plan) {
  std::vector<std::uint32_t> last(chains_, ~std::uint32_t{0});
  std::vector<std::uint32_t> count(chains_);
  before_.resize(plan.steps.size());
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const auto chain = static_cast<std::uint32_t>(std::size_t{step.rank} * plan.lanes + step.lane);
    chain_.push_back(chain);
    place_.push_back(count[chain]++);
    auto& before = before_[event_[i]];
    if (last[chain] != ~std::uint32_t{0}) before.push_back(event_[last[chain]]);
    last[chain] = i;
    for (const unsigned awaited : step.after) {
      if (awaited >= plan.steps.size() || awaited == i)
        return fail(Code::invalid_argument,
                    fmt::format("{} is after step {}, {}", name_of_step(plan, i), awaited,
                                awaited == i ? "itself" : "which there is not"));
      if (!is_heard_by(plan.steps[awaited], step.rank))
        return fail(Code::invalid_argument,
                    fmt::format("{} is after {}, of which rank {} does not hear",
                                name_of_step(plan, i), name_of_step(plan, awaited), step.rank),
                    "let that rank put to it, or signal it behind that step");
      before.push_back(event_[awaited]);
    }
  }
  return {};
}

Result<void> StepOrder::sort(const Plan& plan) {
  const std::size_t steps = plan.steps.size();
  std::vector<std::vector<std::uint32_t>> behind(steps);
  std::vector<std::size_t> missing(steps);
  std::vector<std::vector<std::uint32_t>> steps_of(steps);
  for (std::uint32_t i = 0; i < steps; ++i) {
    steps_of[event_[i]].push_back(i);
    for (const std::uint32_t one : before_[i]) behind[one].push_back(i);
    missing[i] = before_[i].size();
  }
  for (std::uint32_t i = 0; i < steps; ++i)
    if (event_[i] == i && missing[i] == 0) events_in_turn_.push_back(i);
  for (std::size_t next = 0; next < events_in_turn_.size(); ++next) {
    const std::uint32_t event = events_in_turn_[next];
    in_turn_.insert(in_turn_.end(), steps_of[event].begin(), steps_of[event].end());
    for (const std::uint32_t one : behind[event])
      if (--missing[one] == 0) events_in_turn_.push_back(one);
  }
  if (in_turn_.size() == steps) return {};
  const auto stuck = std::ranges::find_if(missing, [](std::size_t count) { return count != 0; });
  const auto step = static_cast<unsigned>(stuck - missing.begin());
  return fail(Code::invalid_argument,
              fmt::format("{} waits for itself, by way of others", name_of_step(plan, step)),
              "a lane's steps take place in the order in which they stand in the plan");
}

// Of each step what it has seen of every chain. Steps of an event have seen the same.
void StepOrder::look_back() {
  seen_.assign(event_.size() * chains_, 0);
  std::vector<std::vector<std::uint32_t>> steps_of(event_.size());
  for (std::uint32_t i = 0; i < event_.size(); ++i) steps_of[event_[i]].push_back(i);
  for (const std::uint32_t event : events_in_turn_) {
    const auto own = std::span(seen_).subspan(event * chains_, chains_);
    for (const std::uint32_t one : before_[event]) {
      const auto theirs = std::span(seen_).subspan(one * chains_, chains_);
      std::ranges::transform(own, theirs, own.begin(),
                             [](auto a, auto b) { return std::max(a, b); });
    }
    for (const std::uint32_t step : steps_of[event])
      own[chain_[step]] = std::max(own[chain_[step]], place_[step] + 1);
    for (const std::uint32_t step : steps_of[event])
      if (step != event)
        std::ranges::copy(own, seen_.begin() + static_cast<std::ptrdiff_t>(step * chains_));
  }
}

}  // namespace gantry
