#pragma once  // pipeline/run/kernel_launch.hpp: a job's kernel on the buffers of one chunk.

#include "pipeline/run/chunk_ring.hpp"

namespace gantry {

/// Binds the job's arguments, clears what reductions are folded into, and launches; `stage` gets
/// the events. `buffers`: one for each argument, null for values.
[[nodiscard]] Result<void> launch_kernel(DeviceQueue& queue, const Kernel& kernel,
                                         const PipelineJob& job, const Chunk& chunk,
                                         std::span<const DeviceBuffer* const> buffers,
                                         ChunkSlot::Stage& stage);

}  // namespace gantry
