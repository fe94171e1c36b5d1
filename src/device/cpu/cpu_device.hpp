#pragma once  // cpu/cpu_device.hpp: the CPU as a device, with threads for queues and callables for
              // kernels.

#include <functional>
#include <gantry/device.hpp>

namespace gantry {

struct CpuDeviceOptions {
  std::string name = "cpu";
  unsigned threads = 0;    ///< Computing threads; 0: as many as the caller may use CPUs.
  Bytes memory_bytes = 0;  ///< Most that buffers take together; 0: the machine's memory.
  /// Copies and fills; then memory that is not there is an error, not a signal. Null: memcpy().
  std::shared_ptr<Engine> copier = {};
  /// For tests: the queue's thread calls it before it executes an operation ("copy-in", "launch",
  /// ...). An error is the operation's; `device_lost` loses the device.
  std::function<Result<void>(std::string_view operation)> before = {};
  /// For tests: DeviceFacts::host_visible.
  bool host_visible = true;
};

/// Errors: `system` when its threads cannot be started, `out_of_memory`.
[[nodiscard]] Result<std::shared_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options = {});

}  // namespace gantry
