#pragma once  // pipeline/run/broadcast.hpp: brings an array that every chunk sees whole to the
              // device, once.

#include <gantry/pipeline/pipeline.hpp>

namespace gantry {

/// Waits until it has arrived. `file_io`: as in PipelineOptions. Errors: `device_full`,
/// `too_large`, those of the copy and of the source.
[[nodiscard]] Result<DeviceBuffer> bring_broadcast(Device& device, DeviceQueue& queue,
                                                   const PipelineSource& source,
                                                   const std::shared_ptr<FileIo>& file_io,
                                                   Deadline limit);

}  // namespace gantry
