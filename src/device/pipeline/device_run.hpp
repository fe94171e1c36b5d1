#pragma once  // pipeline/device_run.hpp: what every run of a job on a device needs: queues, limits,
              // launches, broadcasts, partial results, the host's copies.

#include <algorithm>
#include <cstring>
#include <exception>
#include <gantry/device.hpp>
#include <gantry/engine.hpp>
#include <gantry/pipeline.hpp>

#include "core/base/result.hpp"
#include "device/pipeline/chunk_ring.hpp"

namespace gantry {

template <class Work>
[[nodiscard]] auto caught(Work work) noexcept -> decltype(work()) {
  return guarded([&]() -> decltype(work()) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& thrown) {
      return fail(Code::system, fmt::format("a function of the job's threw: {}", thrown.what()));
    } catch (...) {
      return fail(Code::system, "a function of the job's threw what is no std::exception");
    }
  });
}

/// The latest end of a wait that begins now.
[[nodiscard]] inline Deadline limit_of(const PipelineOptions& options) noexcept {
  const auto left = options.deadline.left();
  return Deadline::after(options.stall_limit.count() > 0 ? std::min(left, options.stall_limit)
                                                         : left);
}

/// How long cancelled operations may take to end.
[[nodiscard]] inline Deadline grace_of(const PipelineOptions& options) noexcept {
  const bool is_limited = options.stall_limit.count() > 0 || !options.deadline.is_never();
  if (!is_limited) return Deadline::never();
  return Deadline::after(
      std::max<std::chrono::nanoseconds>(options.stall_limit, std::chrono::seconds(1)));
}

/// The queues of a run: three, or the same one three times.
struct RunQueues {
  std::vector<std::unique_ptr<DeviceQueue>> own;
  DeviceQueue* copy_in = nullptr;
  DeviceQueue* compute = nullptr;
  DeviceQueue* copy_out = nullptr;
  [[nodiscard]] static Result<RunQueues> open(Device& device, bool is_one);
};

/// Cancels what is pending and waits for the end of what runs. If there is a limit and a kernel
/// does not end by it either, the device is given up.
void halt_queues(Device& device, RunQueues& queues, const PipelineOptions& options) noexcept;

/// Waits until it has arrived. `file_io`: as in PipelineOptions. Errors: `device_full`,
/// `too_large`, those of the copy and of the source.
[[nodiscard]] Result<DeviceBuffer> bring_broadcast(Device& device, DeviceQueue& queue,
                                                   const PipelineSource& source,
                                                   const std::shared_ptr<FileIo>& file_io,
                                                   Deadline limit);

/// Binds the job's arguments, clears what reductions are folded into, and launches; `stage` gets
/// the events. `buffers`: one for each argument, null for values.
[[nodiscard]] Result<void> launch_kernel(DeviceQueue& queue, const Kernel& kernel,
                                         const PipelineJob& job, const Chunk& chunk,
                                         std::span<const DeviceBuffer* const> buffers,
                                         ChunkSlot::Stage& stage);

/// Size of the buffer for all partial results of a chunk on that device.
[[nodiscard]] Bytes partials_bytes(const PipelineJob::Argument& reduction,
                                   const DeviceFacts& device) noexcept;

/// Folds `all`, such a buffer as the kernel left it. Leaves out partial results that hold nothing
/// but the initial value, except the first. Only the first comes with the chunk's steps.
[[nodiscard]] Result<void> fold_partials(const PipelineJob::Argument& reduction, ConstByteSpan all,
                                         Chunk chunk);

class HostCopier {
 public:
  HostCopier() = default;
  /// `engine`: null for memcpy().
  [[nodiscard]] static Result<HostCopier> make(Engine* engine) {
    HostCopier copier;
    if (engine != nullptr) {
      GANTRY_ASSIGN(copier.lane_, engine->open_lane());
    }
    return copier;
  }

  /// Errors: `invalid_argument` with the address that cannot be read or written.
  [[nodiscard]] Result<void> copy(ByteSpan to, ConstByteSpan from) {
    if (lane_ != nullptr) return by_engine(Move::copy(to, from));
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return {};
  }

  /// Makes the bytes of the plan's destination from `at` on; `from` is its whole source. Errors: as
  /// above.
  [[nodiscard]] Result<void> reshape(ByteSpan to, ConstByteSpan from, const ReshapePlan& plan,
                                     Bytes at) {
    from = from.first(plan.source_bytes());
    if (lane_ != nullptr) return by_engine(Move::reshape(to, from, plan, at));
    plan.convert(to, from, at);
    return {};
  }

 private:
  [[nodiscard]] Result<void> by_engine(Move move) {
    Completion completion;
    move.completion = &completion;
    GANTRY_ASSIGN(const Ticket ticket, lane_->submit(move, SubmitMode::synchronous));
    if (lane_->wait(ticket) == Outcome::done) return {};
    const bool is_read = completion.cause == Cause::unreadable;
    if (is_read || completion.cause == Cause::unwritable)
      return fail(Code::invalid_argument,
                  fmt::format("the byte at {:#x} cannot be {}", completion.fault_address,
                              is_read ? "read" : "written"),
                  "a file behind it may have been cut short");
    return fail(Code::system, fmt::format("the copy failed: {}", to_string(completion.cause)));
  }

  std::unique_ptr<Lane> lane_;
};

}  // namespace gantry
