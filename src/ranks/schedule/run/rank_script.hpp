#pragma once  // schedule/run/rank_script.hpp: what one rank does of a plan, and what that waits
              // for.

#include "ranks/schedule/plan.hpp"

namespace gantry {

/// A rank's steps with their counts of what must come first. Made of a checked plan; a run counts
/// down copies of the counts.
///
/// A step waits for the end of another one, but for two that pass through the same queue in their
/// order: then it waits until that one has been handed over. The rank's compute thread is such a
/// queue, its device is one, and what goes out by a link: signals are raised in the order of puts.
class RankScript {
 public:
  enum class Queue : std::uint8_t {
    compute,  // gemm, copy, reduce, fill
    device,   // gemm, where a device computes them
    out,      // put, signal
    in,       // get
    meet,     // a barrier's beginning: all others are told
    met,      // a barrier's end: all others have told
  };
  struct Next {
    std::uint32_t item = 0;
    bool at_hand_over = false;
  };
  /// A step of this rank's; a barrier is two of them.
  struct Item {
    std::uint32_t step = 0;  // in the plan
    Queue queue = Queue::compute;
    unsigned peer = 0;         // of out and in
    std::uint32_t awaits = 0;  // ends, hand-overs and arrivals
    std::vector<Next> next = {};
  };

  RankScript(const Plan& plan, unsigned rank, bool has_device = false);

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }
  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  /// Whether a step of another rank tells this one that it has ended.
  [[nodiscard]] bool comes(std::uint32_t step) const noexcept { return comes_[step]; }
  /// Those steps, in the order of the plan.
  [[nodiscard]] const std::vector<std::uint32_t>& arrivals() const noexcept { return arrivals_; }
  /// The items that wait for such a step.
  [[nodiscard]] const std::vector<std::uint32_t>& waiting_for(std::uint32_t step) const noexcept {
    return waiting_[step];
  }

 private:
  void add_items(const Plan& plan);
  void add_arrivals(const Plan& plan);
  void add_waits(const Plan& plan);
  void wait_for_own(std::uint32_t earlier_step, std::uint32_t item);
  [[nodiscard]] std::uint32_t end_of(std::uint32_t step) const noexcept;

  unsigned rank_;
  bool has_device_;
  std::vector<Item> items_;
  // Of own steps, the first of it; of others' barriers, this rank's of the same turn.
  std::vector<std::uint32_t> item_of_step_;
  std::vector<bool> comes_;
  std::vector<std::vector<std::uint32_t>> waiting_;  // of each step of the plan
  std::vector<std::uint32_t> arrivals_;
};

}  // namespace gantry
