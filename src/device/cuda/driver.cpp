#include "device/cuda/driver.hpp"

#include "base/result.hpp"
#include "device/cuda/status.hpp"
#include "device/cuda/symbols.hpp"

namespace gantry::cuda {
namespace {

constexpr const char* kInstallDriver =
    "install the NVIDIA driver (apt install nvidia-driver), or give the container its devices";

tl::unexpected<Error> missing(const char* name) {
  return fail(Code::unsupported, fmt::format("cuda: the driver has no {}", name),
              "install a newer NVIDIA driver");
}

}  // namespace

Result<Driver> load(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Code::unsupported, fmt::format("cuda: {} cannot be opened", path), kInstallDriver);
  Driver driver;
#define GANTRY_CUDA_FIND(member, symbol, parameters) \
  if (!find(library, symbol, driver.member)) return missing(symbol);
  GANTRY_CUDA_FUNCTIONS(GANTRY_CUDA_FIND)
#undef GANTRY_CUDA_FIND
#define GANTRY_CUDA_FIND(member, symbol, parameters) find(library, symbol, driver.member);
  GANTRY_CUDA_LATER_FUNCTIONS(GANTRY_CUDA_FIND)
#undef GANTRY_CUDA_FIND
  return driver;
}

// cuInit() fails for want of a device, of a kernel module, of a matching version, ...
Result<int> start(const Driver& driver) {
  int count = 0;
  Status status = driver.init(0);
  if (status == kSuccess) status = driver.device_count(&count);
  if (status == kSuccess && count > 0) return count;
  return fail(Code::unsupported,
              fmt::format("cuda: starting the driver: {}",
                          name_of(driver, status == kSuccess ? kNoDevice : status)),
              kInstallDriver);
}

}  // namespace gantry::cuda
