#pragma once  // device_batch.hpp: the batch stage on a device.

#include <string>

#include "batcher.hpp"

namespace vision {

struct DeviceBatchOptions {
  std::string device;  ///< A name for Runtime::open_device(), or "auto": the best there is.
  std::string kernel;  ///< A file with the kernel; empty: our own kernel.
};

/// Makes batches of the frames of `input` until the sender ends the stream; then says on standard
/// error what was done, and how. Errors: those of opening the device, building the kernel and
/// run_stage().
[[nodiscard]] Result<void> batch_on_device(gantry::StageInput& input, Batcher& batcher,
                                           const DeviceBatchOptions& options);

}  // namespace vision
