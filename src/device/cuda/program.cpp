#include "device/cuda/program.hpp"

#include "base/result.hpp"
#include "device/cuda/compiler.hpp"
#include "device/cuda/launch.hpp"

namespace gantry::cuda {
namespace {

std::string kernel_names(const Driver& driver, ModuleHandle module) {
  constexpr const char* kNotTold = "not told by this driver";
  if (driver.function_count == nullptr || driver.functions == nullptr ||
      driver.function_name == nullptr)
    return kNotTold;
  unsigned count = 0;
  if (driver.function_count(&count, module) != kSuccess) return kNotTold;
  std::vector<FunctionHandle> functions(count);
  if (driver.functions(functions.data(), count, module) != kSuccess) return kNotTold;
  std::string names;
  for (FunctionHandle function : functions) {
    const char* name = nullptr;
    if (driver.function_name(&name, function) != kSuccess) continue;
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

class LoadedProgram final : public ProgramState {
 public:
  LoadedProgram(ContextPointer context, std::string name, OwnedModule module, std::string log)
      : context_(std::move(context)),
        name_(std::move(name)),
        module_(std::make_shared<OwnedModule>(std::move(module))),
        log_(std::move(log)) {}

  Result<std::shared_ptr<const KernelState>> find(std::string_view name) const override {
    GANTRY_TRY(context_->core->state());
    const Driver& driver = context_->driver;
    const std::string called(name);
    FunctionHandle function = nullptr;
    std::string others;
    std::shared_ptr<LaunchedKernel> kernel;
    const Status status = context_->with([&] {
      const Status found = driver.module_function(&function, module_->get(), called.c_str());
      if (found == kNotFound) others = kernel_names(driver, module_->get());
      if (found != kSuccess) return found;
      kernel = std::make_shared<LaunchedKernel>(context_->core.get(), called, module_, function);
      learn(driver, *kernel);
      return found;
    });
    if (kernel != nullptr) return kernel;
    const std::string& device = context_->core->name;
    if (status != kNotFound)
      return refused(driver, device, fmt::format("kernel '{}'", name), status);
    return fail(Code::not_found,
                fmt::format("{}: program '{}': no kernel '{}'", device, name_, name),
                fmt::format("its kernels (extern \"C\" __global__) are {}", others));
  }
  std::string_view log() const noexcept override { return log_; }

 private:
  const ContextPointer context_;
  const std::string name_;
  const std::shared_ptr<const OwnedModule> module_;
  const std::string log_;
};

// An image that is text (PTX) ends with a 0; the driver compiles it, and may complain.
Result<Program> load_module(const ContextPointer& context, const ProgramSource& source,
                            std::vector<std::byte> image, std::string log) {
  image.push_back(std::byte{});
  std::array<char, 8192> complaint{};
  std::array<JitOption, 2> names{JitOption::error_log, JitOption::error_log_bytes};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver takes numbers as pointers
  void* const room = reinterpret_cast<void*>(static_cast<std::uintptr_t>(complaint.size() - 1));
  std::array<void*, 2> values{complaint.data(), room};
  ModuleHandle module = nullptr;
  const Driver& driver = context->driver;
  const Status status = context->with([&] {
    return driver.module_load(&module, image.data(), static_cast<unsigned>(names.size()),
                              names.data(), values.data());
  });
  if (status == kSuccess)
    return Program(std::make_shared<LoadedProgram>(context, source.name,
                                                   OwnedModule(context, module), std::move(log)));
  auto error =
      refused(driver, context->core->name, fmt::format("program '{}'", source.name), status);
  if (complaint[0] != '\0') error.value().message += fmt::format(":\n{}", complaint.data());
  return error;
}

}  // namespace

Result<Program> build(const ContextPointer& context, const char* compiler,
                      const ProgramSource& source) {
  if (!source.cuda_image.empty()) return load_module(context, source, source.cuda_image, {});
  const std::string& device = context->core->name;
  if (source.cuda.source.empty())
    return fail(
        Code::unsupported,
        fmt::format("{}: program '{}' has neither CUDA C++ nor a module", device, source.name),
        "give it ProgramSource::cuda or ProgramSource::cuda_image");
  const int capability =
      10 * attribute(context->driver, context->device, Attribute::compute_major) +
      attribute(context->driver, context->device, Attribute::compute_minor);
  GANTRY_ASSIGN(Compiled compiled, compile(compiler, device, source, capability));
  return load_module(context, source, std::move(compiled.image), std::move(compiled.log));
}

}  // namespace gantry::cuda
