#pragma once  // gantry/schedule/executor.hpp: runs a plan together with the other ranks of a group.

#include <gantry/gemm.hpp>
#include <gantry/memory.hpp>
#include <gantry/schedule/group.hpp>
#include <gantry/schedule/plan.hpp>

namespace gantry {

class Device;
class DeviceBuffer;
class DeviceGemmLibrary;

/// Where a rank's tensor lies.
struct PlanMemory {
  std::byte* data = nullptr;  ///< Null: this rank has none, and no step may touch it.
  /// From the beginning of one row to that of the next; 0: rows without gaps.
  Bytes stride = 0;
  /// The region in which it lies, if any: ranks of one machine then copy from it directly.
  const Region* region = nullptr;
  /// Instead: it lies in the memory of PlanExecutorOptions::device, from the first byte on, and
  /// only products touch it. What is given lies there before a run, what is wanted after it.
  const DeviceBuffer* buffer = nullptr;
};

/// Memory for the tensors that a rank's steps touch, in one region.
struct GANTRY_API PlanBuffers {
  std::unique_ptr<Region> region;   ///< Holds the tensors that are not the caller's own.
  std::vector<PlanMemory> tensors;  ///< By Plan::tensors.
  /// Rows have no gaps; each tensor begins at a cache line. `own`: by tensor; where there is some
  /// it is taken as it is. Errors: `invalid_argument`, `too_large`, `out_of_memory`.
  [[nodiscard]] static Result<PlanBuffers> make(const Plan& plan, unsigned rank,
                                                std::span<const PlanMemory> own = {});
};

/// How a run of a plan went at this rank.
struct PlanRun {
  std::chrono::nanoseconds elapsed{};    ///< From the call to its return.
  std::chrono::nanoseconds computing{};  ///< Of that, products, copies and sums took so long.
  std::uint64_t steps = 0;               ///< This rank's; a barrier is two.
  Bytes sent = 0;                        ///< By puts of this rank, and by gets of others from it.
  Bytes received = 0;                    ///< Into this rank.
  /// Signals that belong to no step of this run; none unless a rank misbehaves.
  std::uint64_t dropped_signals = 0;
};

/// What a rank computes with, and within which limits.
struct PlanExecutorOptions {
  PlanLimits limits{};  ///< For check_plan().
  /// Products. Null: open_gemm() without options, if the plan has any.
  std::shared_ptr<GemmLibrary> gemm = {};
  /// Computes the products instead. They are queued as soon as
  /// what they need has come, with the copies of what lies in the host's memory; a part that was
  /// copied is used until the host writes it. Ranks need not have the same.
  std::shared_ptr<Device> device = {};
  std::shared_ptr<DeviceGemmLibrary> device_gemm = {};  ///< Null: open_gemm(device).
};

/// One rank's part in a plan. Move-only. A thread of its own computes; the calling one serves the
/// links. Memory and group must outlive it.
class GANTRY_API PlanExecutor {
 public:
  /// Every rank calls it, with the same plan. Errors: those of check_plan(); `invalid_argument` for
  /// memory that is missing, for a group of another size, and when ranks have different plans;
  /// `unsupported` without a library for its products; the group's end.
  [[nodiscard]] static Result<PlanExecutor> prepare(Group& group, const Plan& plan,
                                                    std::span<const PlanMemory> memory,
                                                    const PlanExecutorOptions& options = {},
                                                    Deadline deadline = Deadline::never());
  PlanExecutor(PlanExecutor&&) noexcept;
  PlanExecutor& operator=(PlanExecutor&&) noexcept;
  ~PlanExecutor();

  /// Every rank calls it. What the plan says is given must lie there, and nobody may touch the
  /// plan's memory until it returns. It returns when this rank's part is over: all its steps, and
  /// all transfers of others to and from its memory. No byte lands there later, also after an
  /// error; then the contents are undefined. (Only a device that was given up by
  /// Device::abandon() may end a copy later.) Errors: which rank failed, at which step, and why,
  /// the same at all ranks: `peer_gone`, `timed_out` (then others fail, too), `interrupted`,
  /// `peer_misbehaved`, those of a product.
  [[nodiscard]] Result<PlanRun> run(Deadline deadline = Deadline::never());

  /// What the plan costs.
  [[nodiscard]] const PlanFacts& facts() const noexcept;

  class Impl;

 private:
  explicit PlanExecutor(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
