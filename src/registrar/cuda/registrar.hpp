#pragma once  // registrar/cuda/registrar.hpp: host memory that CUDA devices reach directly.

#include <gantry/memory/registrar.hpp>

namespace gantry {

struct CudaRegistrarOptions {
  RegistrarOptions limits{};
  int device = 0;                        ///< Whose primary context registers; all may use it.
  const char* library = "libcuda.so.1";  ///< Tests put another in its place.
};

/// Keys are addresses: with unified addressing, which every 64-bit device has, the devices' own.
/// Errors: `unsupported` without a driver or a device.
[[nodiscard]] Result<std::shared_ptr<Registrar>> make_cuda_registrar(
    const CudaRegistrarOptions& options = {});

}  // namespace gantry
