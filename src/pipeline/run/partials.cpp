#include "pipeline/run/partials.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry {

Bytes partials_bytes(const PipelineJob::Argument& reduction, const DeviceFacts& device) noexcept {
  if (device.partials <= 1) return reduction.step_bytes;
  return device.partials * KernelArgument::partial_room(reduction.step_bytes);
}

Result<void> fold_partials(const PipelineJob::Argument& reduction, ConstByteSpan all, Chunk chunk) {
  const Bytes size = reduction.step_bytes;
  for (Bytes at = 0; at + size <= all.size(); at += KernelArgument::partial_room(size)) {
    const ConstByteSpan partial = all.subspan(at, size);
    const bool is_untouched = std::ranges::count(partial, reduction.initial) == std::ssize(partial);
    if (at != 0 && is_untouched) continue;
    GANTRY_TRY(reduction.fold(partial, chunk));
    if (at != 0) continue;
    chunk.first += chunk.steps;
    chunk.steps = 0;
  }
  return {};
}

}  // namespace gantry
