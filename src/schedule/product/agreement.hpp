#pragma once  // schedule/product/agreement.hpp: what ranks find apart and use alike.

#include <gantry/schedule/executor.hpp>
#include <optional>

namespace gantry {

/// What rank 0 says. Every rank calls it. Errors: the group's end; `timed_out`, `too_large`.
[[nodiscard]] Result<std::string> agree_on(Group& group, const std::string& text,
                                           Deadline deadline);
/// What each says, by rank. Every rank calls it. Errors: the same.
[[nodiscard]] Result<std::vector<std::string>> exchange(Group& group, const std::string& text,
                                                        Deadline deadline);
/// The most that any says. Every rank calls it, with no less than 0. Errors: the same;
/// `peer_misbehaved`.
[[nodiscard]] Result<double> slowest_of(Group& group, double seconds, Deadline deadline);

/// A place where all ranks wait for each other.
class Meeting {
 public:
  explicit Meeting(Group& group) noexcept : group_(group) {}
  /// Every rank calls it. Errors: as PlanExecutor's.
  [[nodiscard]] Result<void> wait(Deadline deadline);

 private:
  Group& group_;
  std::optional<PlanExecutor> executor_;
};

}  // namespace gantry
