#include "device/cuda/cuda_device.hpp"

#include <algorithm>

#include "core/base/os/block_signals.hpp"
#include "device/cuda/executor.hpp"
#include "device/cuda/program.hpp"
#include "device/device_base.hpp"

namespace gantry {
namespace cuda {
namespace {

// Without a compiler it serves only programs that bring modules, so the text says which it has.
std::string about(const Driver& driver, Ordinal device, const char* compiler) {
  std::array<char, 128> name{};
  int version = 0;
  driver.device_name(name.data(), static_cast<int>(name.size() - 1), device);
  driver.driver_version(&version);
  return fmt::format("{}, compute capability {}.{}, driver for CUDA {}.{}, {}", name.data(),
                     attribute(driver, device, Attribute::compute_major),
                     attribute(driver, device, Attribute::compute_minor), version / 1000,
                     version % 1000 / 10,
                     compiler_version(compiler).value_or("no NVRTC: kernels as modules only"));
}

Result<DeviceFacts> facts_of(const Context& context, const CudaDeviceOptions& options) {
  const Driver& driver = context.driver;
  const auto get = [&](Attribute which) { return attribute(driver, context.device, which); };
  std::size_t all = 0;
  if (const Status status = driver.device_memory(&all, context.device); status != kSuccess)
    return refused(driver, context.core->name, "its memory", status);
  DeviceFacts facts;
  facts.name = context.core->name;
  facts.about = about(driver, context.device, options.compiler);
  facts.kind = DeviceKind::cuda;
  facts.memory_bytes = options.memory_bytes != 0 ? std::min(options.memory_bytes, all) : all;
  facts.max_buffer_bytes = facts.memory_bytes;
  facts.alignment = 256;  // a multiple of every transaction of its memory
  facts.max_group = context.limits.threads_per_block;
  facts.local_bytes = context.limits.shared_bytes;
  facts.compute_units = static_cast<unsigned>(std::max(get(Attribute::multiprocessors), 1));
  facts.unified_memory = get(Attribute::integrated) != 0;
  facts.copies_overlap = get(Attribute::copy_engines) > 0;
  facts.registering_pays = options.registrar != nullptr;
  return facts;
}

class CudaDevice final : public DeviceBase {
 public:
  CudaDevice(const CudaDeviceOptions& options, const ContextPointer& context, DeviceFacts facts)
      : DeviceBase(std::move(facts), context->core), options_(options), context_(context) {}

  Result<Program> gemm_program() override {
    return if_here([&] { return product_program(context_, options_.products); });
  }
  Result<std::shared_ptr<Registrar>> registrar() override {
    if (options_.registrar) return options_.registrar(options_.index);
    return fail(Code::unsupported,
                fmt::format("{}: it was opened without a registrar", facts().name),
                "open it by Runtime::open_device()");
  }

 private:
  Result<Bytes> free_bytes() const override {
    GANTRY_ASSIGN(const Bytes left, DeviceBase::free_bytes());
    std::size_t free = 0;
    std::size_t total = 0;
    const Status status =
        context_->with([&] { return context_->driver.memory_info(&free, &total); });
    if (status == kSuccess) return std::min<Bytes>(left, free);
    return refused(context_->driver, facts().name, "its memory", status);
  }
  Result<DeviceBuffer> make_buffer(Bytes size, MemoryBudget::Share share) override {
    Address address = 0;
    const Status status = context_->with([&] { return context_->driver.allocate(&address, size); });
    if (status == kSuccess)
      return DeviceBuffer(std::make_shared<Buffer>(
          core().get(), size, OwnedMemory(context_, address), std::move(share)));
    if (status == kOutOfMemory) return full(size);
    return refused(context_->driver, facts().name, fmt::format("a buffer of {} bytes", size),
                   status);
  }
  Result<std::unique_ptr<Executor>> make_executor() override { return open_executor(context_); }
  Result<Program> make_program(const ProgramSource& source) override {
    return cuda::build(context_, options_.compiler, source);
  }

  const CudaDeviceOptions options_;
  const ContextPointer context_;
};

Result<std::shared_ptr<Device>> open(const CudaDeviceOptions& options) {
  const BlockSignals blocked;  // of the threads that its driver starts
  GANTRY_ASSIGN(const Driver driver, load(options.library));
  GANTRY_ASSIGN(const int count, start(driver));
  if (options.index < 0 || options.index >= count)
    return fail(Code::not_found, fmt::format("cuda:{}: there is no such device", options.index),
                fmt::format("there are {}: cuda:0 to cuda:{}", count, count - 1));
  GANTRY_ASSIGN(const auto context, Context::open(driver, options.index));
  GANTRY_ASSIGN(DeviceFacts facts, facts_of(*context, options));
  return std::make_shared<CudaDevice>(options, context, std::move(facts));
}

}  // namespace
}  // namespace cuda

Result<std::vector<std::string>> cuda_devices(const CudaDeviceOptions& options) {
  return guarded([&]() -> Result<std::vector<std::string>> {
    const BlockSignals blocked;  // of the threads that its driver starts
    GANTRY_ASSIGN(const cuda::Driver driver, cuda::load(options.library));
    GANTRY_ASSIGN(const int count, cuda::start(driver));
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      cuda::Ordinal device = 0;
      if (const cuda::Status status = driver.device_get(&device, i); status != cuda::kSuccess)
        return cuda::refused(driver, fmt::format("cuda:{}", i), "the device", status);
      names.push_back(cuda::about(driver, device, options.compiler));
    }
    return names;
  });
}

Result<std::shared_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options) {
  return guarded([&] { return cuda::open(options); });
}

}  // namespace gantry
