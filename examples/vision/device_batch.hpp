#pragma once  // device_batch.hpp: the batch stage by way of a device.

#include <string>

#include "batcher.hpp"

namespace vision {

struct DeviceBatchOptions {
  std::string device;  ///< As Runtime::open_device() knows it, or "auto": the best there is.
  std::string kernel;  ///< A file to take the kernel from in place of our own; empty: ours.
};

/// Frames of `input` into batches until the sender ends the stream; then says on standard error
/// what was done, and how. Errors: what opening the device, building the kernel and run_stage()
/// say.
[[nodiscard]] Result<void> batch_on_device(gantry::StageInput& input, Batcher& batcher,
                                           const DeviceBatchOptions& options);

}  // namespace vision
