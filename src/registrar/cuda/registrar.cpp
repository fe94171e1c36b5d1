#include "registrar/cuda/registrar.hpp"

#include <dlfcn.h>

#include "base/block_signals.hpp"
#include "base/fork.hpp"
#include "base/result.hpp"

namespace gantry {
namespace {

// The driver's functions, declared here by its ABI, so that no toolkit is needed.
using Status = int;
using Device = int;
using Context = void*;
constexpr Status kSuccess = 0;
constexpr Status kOutOfMemory = 2;
constexpr Status kNoDevice = 100;
constexpr Status kInvalidDevice = 101;
constexpr Status kAlreadyRegistered = 712;
constexpr Status kNotRegistered = 713;
constexpr Status kNotSupported = 801;
constexpr unsigned kPortable = 1;  // for every context, not only the one that registers
constexpr unsigned kReadOnly = 8;  // what is mapped read-only needs it

struct Driver {
  Status (*init)(unsigned flags) = nullptr;
  Status (*device_get)(Device* device, int ordinal) = nullptr;
  Status (*retain)(Context* context, Device device) = nullptr;
  Status (*release)(Device device) = nullptr;
  Status (*get_current)(Context* context) = nullptr;
  Status (*set_current)(Context context) = nullptr;
  Status (*host_register)(void* memory, std::size_t size, unsigned flags) = nullptr;
  Status (*host_unregister)(void* memory) = nullptr;
  Status (*error_string)(Status status, const char** text) = nullptr;
};

constexpr const char* kInstallDriver =
    "install the NVIDIA driver (apt install nvidia-driver), or give the container its devices";

template <class Function>
Result<void> find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return {};
  return fail(Code::unsupported, fmt::format("cuda: the driver has no {}", name),
              "install a newer NVIDIA driver");
}

// The library stays loaded: drivers do not like to be unloaded.
Result<Driver> load(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Code::unsupported, fmt::format("cuda: {} cannot be opened", path), kInstallDriver);
  Driver driver;
  GANTRY_TRY(find(library, "cuInit", driver.init));
  GANTRY_TRY(find(library, "cuDeviceGet", driver.device_get));
  GANTRY_TRY(find(library, "cuDevicePrimaryCtxRetain", driver.retain));
  GANTRY_TRY(find(library, "cuDevicePrimaryCtxRelease_v2", driver.release));
  GANTRY_TRY(find(library, "cuCtxGetCurrent", driver.get_current));
  GANTRY_TRY(find(library, "cuCtxSetCurrent", driver.set_current));
  GANTRY_TRY(find(library, "cuMemHostRegister_v2", driver.host_register));
  GANTRY_TRY(find(library, "cuMemHostUnregister", driver.host_unregister));
  GANTRY_TRY(find(library, "cuGetErrorString", driver.error_string));
  return driver;
}

Code code_of(Status status) {
  switch (status) {
    case kOutOfMemory:
      return Code::out_of_memory;
    case kNoDevice:
    case kInvalidDevice:
    case kNotSupported:
      return Code::unsupported;
    case kAlreadyRegistered:
      return Code::already_exists;
    default:
      return Code::system;
  }
}

std::string_view hint_for(Status status) {
  switch (status) {
    case kNoDevice:
    case kInvalidDevice:
      return "nvidia-smi lists the devices there are";
    case kAlreadyRegistered:
      return "unregister what the program registered itself";
    case kNotSupported:
      return "copy from it as from any memory: this device cannot have it registered for reading";
    default:
      return "";
  }
}

tl::unexpected<Error> refused(const Driver& driver, std::string_view what, Status status) {
  const char* text = nullptr;
  if (driver.error_string(status, &text) != kSuccess || text == nullptr) text = "unknown error";
  return fail(code_of(status), fmt::format("{}: {} (CUDA error {})", what, text, status),
              std::string(hint_for(status)));
}

/// The device's primary context, shared with other users of it in this process.
class PrimaryContext {
 public:
  explicit PrimaryContext(const Driver& driver) noexcept : driver_(driver) {}
  // The driver does not survive a fork(): a child must not call it.
  ~PrimaryContext() {
    if (context_ != nullptr && fork_guard_.is_this()) driver_.release(device_);
  }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  Result<void> open(int ordinal) {
    if (const Status status = driver_.init(0); status != kSuccess)
      return unusable("cuda: starting the driver", status);
    if (const Status status = driver_.device_get(&device_, ordinal); status != kSuccess)
      return refused(driver_, fmt::format("cuda: device {}", ordinal), status);
    if (const Status status = driver_.retain(&context_, device_); status != kSuccess)
      return refused(driver_, fmt::format("cuda: the context of device {}", ordinal), status);
    return {};
  }

  /// Runs `call` with this context current, then makes the caller's current again.
  template <class Call>
  [[nodiscard]] Status with(Call call) const noexcept {
    Context before = nullptr;
    if (const Status status = driver_.get_current(&before); status != kSuccess) return status;
    if (const Status status = driver_.set_current(context_); status != kSuccess) return status;
    const Status status = call();
    driver_.set_current(before);
    return status;
  }

 private:
  // cuInit() fails for want of a device, of a kernel module, of a matching version, ...
  [[nodiscard]] tl::unexpected<Error> unusable(std::string_view what, Status status) const {
    auto error = refused(driver_, what, status);
    error.value().code = Code::unsupported;
    error.value().hint = kInstallDriver;
    return error;
  }

  const Driver driver_;
  Device device_ = 0;
  Context context_ = nullptr;
  const ForkGuard fork_guard_;
};

class CudaRegistrar final : public Registrar {
 public:
  CudaRegistrar(const RegistrarOptions& limits, const Driver& driver,
                std::unique_ptr<PrimaryContext> context)
      : Registrar("cuda", limits), driver_(driver), context_(std::move(context)) {}

 protected:
  // Devices without CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED refuse the flag.
  Result<Keys> do_register(ByteSpan memory, DeviceAccess access) override {
    const unsigned flags = access == DeviceAccess::read ? kPortable | kReadOnly : kPortable;
    const Status status =
        context_->with([&] { return driver_.host_register(memory.data(), memory.size(), flags); });
    if (status != kSuccess)
      return refused(driver_, fmt::format("registering {} bytes", memory.size()), status);
    return Keys{reinterpret_cast<std::uintptr_t>(memory.data()), 0};
  }

  int do_unregister(const Keys&, ByteSpan memory) noexcept override {
    const Status status = context_->with([&] { return driver_.host_unregister(memory.data()); });
    // The driver may have noticed by itself that the memory is gone.
    return status == kSuccess || status == kNotRegistered ? 0 : EIO;
  }

 private:
  const Driver driver_;
  const std::unique_ptr<PrimaryContext> context_;
};

}  // namespace

Result<std::shared_ptr<Registrar>> make_cuda_registrar(const CudaRegistrarOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Registrar>> {
    const BlockSignals blocked;  // of the threads that its driver starts
    GANTRY_ASSIGN(const Driver driver, load(options.library));
    auto context = std::make_unique<PrimaryContext>(driver);
    GANTRY_TRY(context->open(options.device));
    return std::make_shared<CudaRegistrar>(options.limits, driver, std::move(context));
  });
}

}  // namespace gantry
