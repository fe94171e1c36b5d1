#pragma once  // devices.hpp: the devices that must pass the suite.

#include <gtest/gtest.h>

#include <gantry/gantry.hpp>
#include <ostream>

#include "core/engine/inline/inline_engine.hpp"
#include "device/cpu/cpu_device.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/cuda_registrar.hpp"
#include "device/opencl/opencl_device.hpp"
#include "fake_device.hpp"

namespace gantry {

struct DeviceCase {
  const char* name;
  /// With so much memory at most; 0: all it has.
  Result<std::shared_ptr<Device>> (*make)(Bytes memory_bytes);
};

inline void PrintTo(const DeviceCase& device, std::ostream* out) {
  *out << device.name;
}

inline CudaDeviceOptions cuda_options(Bytes memory_bytes) {
  return {.memory_bytes = memory_bytes,
          .registrar = [](int device) { return make_cuda_registrar({.device = device}); }};
}

/// On the stand-in of the driver: cuda_stub.hpp.
inline CudaDeviceOptions cuda_stub_options(Bytes memory_bytes) {
  return {.memory_bytes = memory_bytes,
          .library = GANTRY_CUDA_STUB,
          .compiler = GANTRY_NVRTC_STUB,
          .products = GANTRY_CUDA_STUB,
          .registrar = [](int device) {
            return make_cuda_registrar({.device = device, .library = GANTRY_CUDA_STUB});
          }};
}

inline const DeviceCase kDevices[] = {
    {"cpu",
     [](Bytes memory_bytes) {
       return make_cpu_device(
           {.threads = 3, .memory_bytes = memory_bytes, .copier = *make_inline_engine()});
     }},
    {"cpu_memcpy",
     [](Bytes memory_bytes) {
       return make_cpu_device({.threads = 1, .memory_bytes = memory_bytes});
     }},
    {"opencl",
     [](Bytes memory_bytes) -> Result<std::shared_ptr<Device>> {
#if defined(__SANITIZE_THREAD__)
       return fail(Code::unsupported, "ThreadSanitizer does not see into drivers", "other presets");
#endif
       return make_opencl_device({.memory_bytes = memory_bytes});
     }},
    {"cuda", [](Bytes memory_bytes) { return make_cuda_device(cuda_options(memory_bytes)); }},
    {"cuda_stub",
     [](Bytes memory_bytes) { return make_cuda_device(cuda_stub_options(memory_bytes)); }},
    {"fake",
     [](Bytes memory_bytes) {
       return make_fake_device(std::make_shared<FaultScript>(), memory_bytes);
     }},
};

}  // namespace gantry
