#pragma once  // pipeline/run/partials.hpp: the partial results that one chunk leaves of a
              // reduction.

#include <gantry/device/device.hpp>
#include <gantry/pipeline/pipeline.hpp>

namespace gantry {

/// Size of the buffer for all partial results of a chunk on that device.
[[nodiscard]] Bytes partials_bytes(const PipelineJob::Argument& reduction,
                                   const DeviceFacts& device) noexcept;

/// Folds `all`, such a buffer as the kernel left it. Leaves out partial results that hold nothing
/// but the initial value, except the first. Only the first comes with the chunk's steps.
[[nodiscard]] Result<void> fold_partials(const PipelineJob::Argument& reduction, ConstByteSpan all,
                                         Chunk chunk);

}  // namespace gantry
