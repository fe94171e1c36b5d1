#pragma once  // schedule/run/places.hpp: where the tensors of a plan lie, here and at other ranks.

#include <gantry/plan.hpp>

#include "ranks/group/group.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry {

/// A rectangle of memory here.
struct LocalRect {
  std::byte* data = nullptr;
  Bytes rows = 0;
  Bytes row_bytes = 0;
  Bytes stride = 0;
};

/// A rank's tensors, and those that the others let it reach. Its exports end with it.
class PlanPlaces {
 public:
  explicit PlanPlaces(const Plan& plan) : plan_(&plan) {}
  /// Errors: `invalid_argument` for memory that a step touches and nobody gave.
  [[nodiscard]] static Result<PlanPlaces> of(const Plan& plan, unsigned rank,
                                             std::span<const PlanMemory> memory);

  /// Tells each other rank where this one's tensors lie, and hears where theirs do. Errors:
  /// `invalid_argument` when their plans differ; the group's end; `timed_out`.
  [[nodiscard]] Result<void> exchange(Group::Impl& group, std::uint64_t plan_hash,
                                      Deadline deadline);

  [[nodiscard]] LocalRect local(const PlanPlace& place) const noexcept;
  /// Its stride is never 0.
  [[nodiscard]] const PlanMemory& memory(unsigned tensor) const noexcept { return memory_[tensor]; }
  /// What a put or a get of this rank asks of the link to the other one.
  [[nodiscard]] Transfer transfer(const PlanStep& step, std::uint64_t signal) const noexcept;
  /// A transfer of no bytes, for its signal.
  [[nodiscard]] Transfer signal_place(unsigned peer, std::uint64_t signal) const noexcept;

 private:
  struct Remote {
    RemoteRegion region;
    Bytes offset = 0;
    Bytes stride = 0;
  };
  [[nodiscard]] Result<void> tell(Group::Impl& group, unsigned peer, std::uint64_t plan_hash);
  [[nodiscard]] Result<std::vector<std::pair<unsigned, Remote>>> export_to(Link& link,
                                                                           unsigned peer);
  [[nodiscard]] Result<void> hear(unsigned peer, const RankMessage& message);
  [[nodiscard]] Error difference(const Group::Impl& group, unsigned peer,
                                 const RankMessage& message) const;
  [[nodiscard]] Result<void> check_heard() const;

  const Plan* plan_;
  unsigned rank_ = 0;
  std::vector<PlanMemory> memory_;  // by tensor; strides are never 0
  std::vector<std::vector<std::optional<Remote>>>
      remote_;                         // by rank and tensor; the place of signals is last
  std::vector<std::size_t> expected_;  // by rank: entries; 0: not heard yet
  std::vector<std::size_t> heard_;
  std::vector<Export> exports_;
  std::unique_ptr<std::byte[]> signal_place_;
};

/// The same for equal plans.
[[nodiscard]] std::uint64_t hash_of(const Plan& plan);

}  // namespace gantry
