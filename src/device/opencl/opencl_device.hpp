#pragma once  // opencl/opencl_device.hpp: devices of OpenCL 1.2 and later, through the loader.

#include <chrono>
#include <gantry/device.hpp>
#include <vector>

namespace gantry {

struct OpenclDeviceOptions {
  unsigned index = 0;      ///< Index in opencl_devices().
  Bytes memory_bytes = 0;  ///< Most that buffers take together; 0: the device's memory.
  const char* library = "libOpenCL.so.1";
  /// How long to wait for its first answer, and for its answer to a new buffer.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
};

/// Describes each device, in the order of its number; leaves out those without a compiler or of an
/// older OpenCL. Errors: `unsupported`, with what to install.
[[nodiscard]] Result<std::vector<std::string>> opencl_devices(
    const OpenclDeviceOptions& options = {});

/// Errors: `unsupported` as above, `not_found` with how many devices there are, `timed_out` when
/// the device does not answer, `system`.
[[nodiscard]] Result<std::shared_ptr<Device>> make_opencl_device(
    const OpenclDeviceOptions& options = {});

}  // namespace gantry
