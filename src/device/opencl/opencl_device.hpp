#pragma once  // device/opencl/opencl_device.hpp: devices of OpenCL 1.2 and later, by the loader
              // that finds their drivers.

#include <chrono>
#include <gantry/device/device.hpp>
#include <vector>

namespace gantry {

struct OpenclDeviceOptions {
  unsigned index = 0;      ///< Of opencl_devices().
  Bytes memory_bytes = 0;  ///< Most that buffers take together; 0: what the device has.
  const char* library = "libOpenCL.so.1";
  /// How long its first answer, and that to a new buffer, is waited for.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
};

/// What each device is, in the order of its number, those without a compiler or of an older OpenCL
/// left out. Errors: `unsupported`, with what to install.
[[nodiscard]] Result<std::vector<std::string>> opencl_devices(
    const OpenclDeviceOptions& options = {});

/// Errors: `unsupported` as above, `not_found` with how many devices there are, `timed_out` when it
/// does not answer, `system`.
[[nodiscard]] Result<std::shared_ptr<Device>> make_opencl_device(
    const OpenclDeviceOptions& options = {});

}  // namespace gantry
