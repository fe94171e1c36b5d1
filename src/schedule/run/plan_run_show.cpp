// What a rank's page says of a run. Each look is bounded: whoever wants to know more reads the
// plan.
#include <algorithm>

#include "schedule/run/plan_run.hpp"

namespace gantry {
namespace {

constexpr std::size_t kLooksAhead = 64;

std::uint8_t code_of(RankPage::Kind kind) noexcept {
  return static_cast<std::uint8_t>(kind);
}

bool is_full(const std::vector<RankPage::At>& at) noexcept {
  return at.size() >= RankPage::kMostSteps;
}

}  // namespace

// Of an own step the far rank, if there is one; of another's, who does it.
RankPageStep PlanRunLoop::page_step(std::uint32_t step) const noexcept {
  const PlanStep& what = prepared_.plan.steps[step];
  const auto verb = static_cast<std::uint8_t>(what.verb);
  if (what.rank != script_.rank()) return {step, static_cast<std::uint16_t>(what.rank), verb, 0};
  const bool goes_out = what.verb == PlanVerb::put || what.verb == PlanVerb::signal;
  const bool has_peer = goes_out || what.verb == PlanVerb::get;
  const auto peer = static_cast<std::uint16_t>(goes_out ? what.to.rank : what.from.rank);
  return {step, has_peer ? peer : RankPageStep::kNoRank, verb, 0};
}

void PlanRunLoop::show_absent(std::vector<RankPage::At>& at) const {
  for (unsigned peer = 0; peer < peers_.size() && !is_full(at); ++peer)
    if (peer != script_.rank() && !peers_[peer].is_ready)
      at.push_back({{0, static_cast<std::uint16_t>(peer), 0, code_of(RankPage::Kind::comes)}, {}});
}

void PlanRunLoop::show_under_way(std::vector<RankPage::At>& at) {
  const auto& items = script_.items();
  while (first_open_ < items.size() && has_ended_[first_open_]) ++first_open_;
  const std::size_t end = std::min(items.size(), first_open_ + kLooksAhead);
  for (std::size_t item = first_open_; item < end && !is_full(at); ++item) {
    if (has_ended_[item] || awaits_[item] > 0) continue;
    RankPageStep step = page_step(items[item].step);
    const Queue queue = items[item].queue;
    const bool computes = queue == Queue::compute || queue == Queue::device;
    step.kind = code_of(computes ? RankPage::Kind::computes : RankPage::Kind::moves);
    at.push_back({step, {}});
  }
}

void PlanRunLoop::show_awaited(std::vector<RankPage::At>& at) {
  const auto& arrivals = script_.arrivals();
  while (first_awaited_ < arrivals.size() && has_come_[arrivals[first_awaited_]]) ++first_awaited_;
  const std::size_t end = std::min(arrivals.size(), first_awaited_ + kLooksAhead);
  for (std::size_t i = first_awaited_; i < end && !is_full(at); ++i) {
    if (has_come_[arrivals[i]]) continue;
    const auto& waiting = script_.waiting_for(arrivals[i]);
    RankPage::At one{{}, page_step(arrivals[i])};
    if (!waiting.empty()) one.first = page_step(script_.items()[waiting.front()].step);
    one.first.kind = code_of(waiting.empty() ? RankPage::Kind::hears : RankPage::Kind::waits);
    at.push_back(one);
  }
}

// The first in the plan's order that is under way here or has not come; nothing: the others have
// not begun.
std::optional<std::uint32_t> PlanRunLoop::awaited_step() noexcept {
  if (peers_left_ > 0) return std::nullopt;
  const auto& items = script_.items();
  const auto& arrivals = script_.arrivals();
  while (first_open_ < items.size() && has_ended_[first_open_]) ++first_open_;
  while (first_awaited_ < arrivals.size() && has_come_[arrivals[first_awaited_]]) ++first_awaited_;
  std::optional<std::uint32_t> first;
  if (first_open_ < items.size() && awaits_[first_open_] == 0) first = items[first_open_].step;
  if (first_awaited_ < arrivals.size()) {
    const std::uint32_t arrival = arrivals[first_awaited_];
    first = std::min(first.value_or(arrival), arrival);
  }
  return first;
}

void PlanRunLoop::show() {
  std::vector<RankPage::At> at;
  at.reserve(RankPage::kMostSteps);
  show_absent(at);
  show_under_way(at);
  show_awaited(at);
  group_.report().show(at);
  is_shown_ = true;
}

}  // namespace gantry
