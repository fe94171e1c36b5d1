#pragma once  // schedule/step_order.hpp: what happens before what.

#include "schedule/plan.hpp"

namespace gantry {

/// The order of a plan's steps: of its lanes, of what they wait for, of barriers. The n-th barriers
/// of all ranks are one event.
class StepOrder {
 public:
  /// Errors: `invalid_argument` when a step waits for what its rank does not hear of, when ranks
  /// have different numbers of barriers, when steps wait for each other; `too_large`.
  [[nodiscard]] static Result<StepOrder> of(const Plan& plan);

  /// All steps, each behind those that happen before it.
  [[nodiscard]] const std::vector<std::uint32_t>& in_turn() const noexcept { return in_turn_; }
  [[nodiscard]] bool is_before(std::uint32_t one, std::uint32_t other) const noexcept {
    return one == other || seen_[other * chains_ + chain_[one]] > place_[one];
  }

 private:
  [[nodiscard]] Result<void> make_edges(const Plan& plan);
  [[nodiscard]] Result<void> join_barriers(const Plan& plan);
  [[nodiscard]] Result<void> sort(const Plan& plan);
  void look_back();

  std::size_t chains_ = 0;            // lanes of all ranks
  std::vector<std::uint32_t> chain_;  // of each step
  std::vector<std::uint32_t> place_;  // of each step in its chain, from 0
  std::vector<std::uint32_t> event_;  // of each step: itself, or the first barrier of its turn
  std::vector<std::vector<std::uint32_t>> before_;  // of each event: events
  std::vector<std::uint32_t> in_turn_;
  std::vector<std::uint32_t> events_in_turn_;
  std::vector<std::uint32_t> seen_;  // of each step and chain: how many of it happened before
};

}  // namespace gantry
