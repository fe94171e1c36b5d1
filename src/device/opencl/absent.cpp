// Built instead of the backend where the headers of OpenCL are not installed.
#include "core/base/result.hpp"
#include "device/opencl/opencl_device.hpp"

namespace gantry {
namespace {

tl::unexpected<Error> absent() {
  return fail(Code::unsupported, "opencl: this build of Gantry is without it",
              "install opencl-headers and build again (GANTRY_OPENCL=ON)");
}

}  // namespace

Result<std::vector<std::string>> opencl_devices(const OpenclDeviceOptions&) {
  return absent();
}

Result<std::shared_ptr<Device>> make_opencl_device(const OpenclDeviceOptions&) {
  return absent();
}

}  // namespace gantry
