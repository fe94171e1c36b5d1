#pragma once  // device/cpu/cpu_device.hpp: the CPU as a device: threads for queues, callables for
              // kernels.

#include <functional>
#include <gantry/device/device.hpp>

namespace gantry {

struct CpuDeviceOptions {
  std::string name = "cpu";
  unsigned threads = 0;    ///< That compute; 0: as many as the caller may use CPUs.
  Bytes memory_bytes = 0;  ///< Most that buffers take together; 0: what the machine has.
  /// Copies and fills; memory that is not there is then an error, not a signal. Null: memcpy().
  std::shared_ptr<Engine> copier = {};
  /// For tests: called by the queue's thread before it executes an operation ("copy-in", "launch",
  /// ...). An error is the operation's; `device_lost` loses the device.
  std::function<Result<void>(std::string_view operation)> before = {};
  /// For tests: what it says of itself.
  bool host_visible = true;
};

/// Errors: `system` when its threads cannot be had, `out_of_memory`.
[[nodiscard]] Result<std::shared_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options = {});

}  // namespace gantry
