#pragma once  // cuda/cuda_registrar.hpp: registers host memory that CUDA devices reach directly.

#include <gantry/memory.hpp>

namespace gantry {

struct CudaRegistrarOptions {
  RegistrarOptions limits{};
  int device = 0;                        ///< The device whose primary context registers; all may
                                         ///< use it.
  const char* library = "libcuda.so.1";  ///< Tests use another.
};

/// Keys are addresses. With unified addressing, which every 64-bit device has, the devices use the
/// same ones. Errors: `unsupported` without a driver or a device.
[[nodiscard]] Result<std::shared_ptr<Registrar>> make_cuda_registrar(
    const CudaRegistrarOptions& options = {});

}  // namespace gantry
