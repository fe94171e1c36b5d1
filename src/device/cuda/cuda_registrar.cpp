#include "device/cuda/cuda_registrar.hpp"

#include "core/base/os/block_signals.hpp"
#include "core/base/result.hpp"
#include "device/cuda/context.hpp"

namespace gantry {
namespace cuda {
namespace {

constexpr Status kInvalidDevice = 101;
constexpr Status kAlreadyRegistered = 712;
constexpr Status kNotRegistered = 713;
constexpr unsigned kPortable = 1;  // for every context, not only the one that registers
constexpr unsigned kReadOnly = 8;  // what is mapped read-only needs it

Code code_of_registering(Status status) {
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

tl::unexpected<Error> not_registered(const Driver& driver, std::string_view what, Status status) {
  const char* text = nullptr;
  if (driver.error_string(status, &text) != kSuccess || text == nullptr) text = "unknown error";
  return fail(code_of_registering(status),
              fmt::format("{}: {} (CUDA error {})", what, text, status),
              std::string(hint_for(status)));
}

class CudaRegistrar final : public Registrar {
 public:
  CudaRegistrar(const RegistrarOptions& limits, ContextPointer context)
      : Registrar("cuda", limits), context_(std::move(context)) {}

 protected:
  // Devices without CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED refuse the flag.
  Result<Keys> do_register(ByteSpan memory, DeviceAccess access) override {
    const unsigned flags = access == DeviceAccess::read ? kPortable | kReadOnly : kPortable;
    const Status status = context_->with(
        [&] { return context_->driver.host_register(memory.data(), memory.size(), flags); });
    if (status != kSuccess)
      return not_registered(context_->driver, fmt::format("registering {} bytes", memory.size()),
                            status);
    return Keys{reinterpret_cast<std::uintptr_t>(memory.data()), 0};
  }

  int do_unregister(const Keys&, ByteSpan memory) noexcept override {
    const Status status =
        context_->with([&] { return context_->driver.host_unregister(memory.data()); });
    // The driver may have noticed by itself that the memory is gone.
    return status == kSuccess || status == kNotRegistered ? 0 : EIO;
  }

 private:
  const ContextPointer context_;
};

}  // namespace
}  // namespace cuda

Result<std::shared_ptr<Registrar>> make_cuda_registrar(const CudaRegistrarOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Registrar>> {
    const BlockSignals blocked;  // of the threads that its driver starts
    GANTRY_ASSIGN(const cuda::Driver driver, cuda::load(options.library));
    GANTRY_ASSIGN(const int count, cuda::start(driver));
    if (options.device < 0 || options.device >= count)
      return cuda::not_registered(driver, fmt::format("cuda: device {}", options.device),
                                  cuda::kInvalidDevice);
    auto context = cuda::Context::open(driver, options.device);
    if (context) return std::make_shared<cuda::CudaRegistrar>(options.limits, *std::move(context));
    Error error = std::move(context).error();  // with a code of devices
    const bool is_full = error.code == Code::device_full;
    if (error.code != Code::unsupported) error.code = is_full ? Code::out_of_memory : Code::system;
    return tl::unexpected(std::move(error));
  });
}

}  // namespace gantry
