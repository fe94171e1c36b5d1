#pragma once  // pipeline/run/halt.hpp: time limits of a run, and how its queues come to rest.

#include <algorithm>

#include "pipeline/run/chunk_executor.hpp"

namespace gantry {

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

/// Cancels what is pending and waits for the end of what runs. If there is a limit and a kernel
/// does not end by it either, the device is given up.
inline void halt_queues(Device& device, RunQueues& queues,
                        const PipelineOptions& options) noexcept {
  if (!device.state()) return;
  for (const auto& queue : queues.own) queue->cancel();
  const Deadline until = grace_of(options);
  // The copying queues first: when a kernel costs the device, none of them touches the caller's
  // memory.
  for (auto at = queues.own.rbegin(); at != queues.own.rend(); ++at) {
    const auto drained = (*at)->drain(until);
    if (!drained && drained.error().code == Code::timed_out)
      return device.abandon("a kernel of a pipeline did not end in its time");
  }
}

}  // namespace gantry
