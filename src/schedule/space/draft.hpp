#pragma once  // schedule/space/draft.hpp: the second verb: who does a step, in which lane.

#include "schedule/space/split.hpp"

namespace gantry {

/// A plan in the making. Each peer of a rank has a lane of its own, as far as there are lanes;
/// what a rank computes is lane 0, in the order in which it is added.
class PlanDraft {
 public:
  static constexpr unsigned kA = 0, kB = 1, kC = 2, kArrivals = 3, kStagedProduct = 4,
                            kStagedInput = 5;
  static constexpr unsigned kNone = ~0u;
  using Steps = std::vector<unsigned>;

  /// `most_lanes`: of a rank, at least two.
  PlanDraft(const OperatorSplit& split, bool one_peer_at_a_time, unsigned most_lanes);

  /// Moves a rectangle to another rank by the schedule's path, behind steps that its owner hears
  /// of; a get behind `is_free`, too, a step of whoever gets it. Returns what whoever has it then
  /// waits for; kNone if there is nothing to move.
  unsigned move(const PlanPlace& from, const PlanPlace& to, const Steps& after,
                unsigned is_free = kNone);
  /// `to` = `from` * `other`, or adds that. Zero where there is no depth.
  void multiply(const PlanPlace& to, const PlanPlace& from, const PlanPlace& other, bool adds,
                Steps after);
  void copy(const PlanPlace& to, const PlanPlace& from, Steps after);
  void reduce(const PlanPlace& to, const PlanPlace& from, Steps after);
  void fill(const PlanPlace& to);

  /// The step that the rank computes last, so far.
  [[nodiscard]] unsigned last_computed(unsigned rank) const noexcept { return computed_[rank]; }
  [[nodiscard]] Plan take();

 private:
  unsigned lane_of(unsigned rank, unsigned peer);
  unsigned add(PlanStep step);
  void compute(PlanStep step);

  Plan plan_;
  std::vector<unsigned> computed_;  // of each rank: its last step in lane 0
  SchedulePath path_;
  bool one_peer_at_a_time_;
  unsigned most_lanes_;
};

/// The third verb: in which order pieces move and are multiplied. Of operators whose A moves:
void order_inbound(const OperatorSplit& split, PlanDraft& draft);
/// Of operators whose product moves.
void order_outbound(const OperatorSplit& split, PlanDraft& draft);

}  // namespace gantry
