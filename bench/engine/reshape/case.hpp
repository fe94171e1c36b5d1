#pragma once  // bench/engine/reshape/case.hpp: what is converted, and the memory of all who do it.

#include <gantry/shape.hpp>
#include <optional>
#include <vector>

#include "../../peers/reshape_task.hpp"
#include "../../support/system/buffer.hpp"
#include "../settings.hpp"

namespace gantry::bench {

/// A conversion that subjects are compared at.
struct ReshapeCase {
  std::string name;
  ReshapeTask task;  ///< Without memory.
  ReshapePlan plan;

  [[nodiscard]] Bytes source_bytes() const noexcept { return plan.source_bytes(); }
  [[nodiscard]] Bytes destination_bytes() const noexcept { return plan.destination_bytes(); }
};

/// Those of the part, no source larger than the largest of --sizes, or one picture.
[[nodiscard]] Result<std::vector<ReshapeCase>> reshape_cases(const Settings& settings);

/// What plain loops make of a task, as somebody writes them who has no library. They are the
/// reference, too.
void reshape_by_loop(const ReshapeTask& task) noexcept;

/// Memory that the subjects of a case share, every page present; the source is filled.
class ReshapeMemory {
 public:
  explicit ReshapeMemory(const ReshapeCase& what);

  [[nodiscard]] ConstByteSpan source() const noexcept { return source_.bytes(); }
  [[nodiscard]] ByteSpan destination() const noexcept { return destination_.bytes(); }
  /// Room for a copy of either.
  [[nodiscard]] ByteSpan staging() const noexcept { return staging_.bytes(); }
  /// What has to be made.
  [[nodiscard]] ConstByteSpan reference() const noexcept { return reference_.bytes(); }
  /// The task with its memory.
  [[nodiscard]] const ReshapeTask& task() const noexcept { return task_; }

  /// Spoils a few words, so that nobody gets by with what was made before.
  void spoil(ByteSpan made) noexcept;
  /// Errors: `peer_misbehaved`, with the first number that is further off than `tolerance`; with
  /// 0: bytes that are not the reference's.
  [[nodiscard]] Result<void> check(ConstByteSpan made, double tolerance) const;
  /// The same of i8 by one scale for all.
  [[nodiscard]] Result<void> check_whole_numbers(ConstByteSpan made) const;

 private:
  ReshapeTask task_;
  Buffer source_, destination_, staging_, reference_;
  std::uint64_t random_ = 0x9e3779b97f4a7c15;  // any value but 0
};

}  // namespace gantry::bench
