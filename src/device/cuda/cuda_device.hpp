#pragma once  // cuda/cuda_device.hpp: NVIDIA's devices, through their driver alone.

#include <functional>
#include <gantry/device.hpp>
#include <vector>

namespace gantry {

struct CudaDeviceOptions {
  int index = 0;                         ///< Index in cuda_devices().
  Bytes memory_bytes = 0;                ///< Most that buffers take together; 0: the device's
                                         ///< memory.
  const char* library = "libcuda.so.1";  ///< Tests use others.
  const char* compiler = nullptr;        ///< Null: the newest NVRTC there is.
  const char* products = nullptr;        ///< Null: the newest cuBLAS there is.
  /// The result of registrar(), for the device of that number; null: it has none.
  std::function<Result<std::shared_ptr<Registrar>>(int index)> registrar = {};
};

/// Describes each device, in the order of its number. Errors: `unsupported`, with what to install.
[[nodiscard]] Result<std::vector<std::string>> cuda_devices(const CudaDeviceOptions& options = {});

/// Errors: `unsupported` as above, `not_found` with how many devices there are, `device_lost`,
/// `device_full`, `system`.
[[nodiscard]] Result<std::shared_ptr<Device>> make_cuda_device(
    const CudaDeviceOptions& options = {});

}  // namespace gantry
