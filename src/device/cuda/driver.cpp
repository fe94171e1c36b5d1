#include "device/cuda/driver.hpp"

#include "core/base/result.hpp"

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

std::string name_of(const Driver& driver, Status status) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(status, &name) != kSuccess || name == nullptr) name = "CUDA_ERROR";
  if (driver.error_string(status, &text) != kSuccess || text == nullptr) text = "unknown error";
  return fmt::format("{}: {} ({})", name, text, status);
}

bool is_fault(Status status) noexcept {
  switch (status) {
    case 700:  // illegal address
    case 702:  // the system's time limit for kernels
    case 710:  // assert() of a kernel
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed: any other exception
    case 721:  // tensor memory leak
      return true;
    default:
      return false;
  }
}

Code code_of(Status status) noexcept {
  if (is_fault(status)) return Code::device_lost;
  switch (status) {
    case 1:    // invalid value: an address, a size
    case 701:  // launch out of resources: too many threads for the kernel's registers
      return Code::invalid_argument;
    case kOutOfMemory:
      return Code::device_full;
    case kNotFound:
      return Code::not_found;
    case 200:  // invalid image
    case 209:  // no binary for this device
    case 218:  // invalid PTX
    case 221:  // no compiler for PTX
    case 222:  // PTX too new
      return Code::build_failed;
    case kNotSupported:
      return Code::unsupported;
    case 3:    // not initialised
    case 4:    // deinitialised: the process is ending
    case 46:   // device unavailable
    case 201:  // invalid context
    case 214:  // uncorrectable memory error
    case 220:  // uncorrectable NVLink error
    case 226:  // contained memory error
    case 709:  // context destroyed
    case 802:  // system not ready
    case 805:  // the server of shared devices is gone (MPS)
    case 806:
    case 807:
    case 808:
    case 809:
    case 911:  // external device
    case 999:  // unknown
      return Code::device_lost;
    default:
      return Code::system;
  }
}

tl::unexpected<Error> refused(const Driver& driver, std::string_view device, std::string_view what,
                              Status status) {
  return fail(code_of(status), fmt::format("{}: {}: {}", device, what, name_of(driver, status)));
}

}  // namespace gantry::cuda
