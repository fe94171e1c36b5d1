#include "device/cuda/program.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "core/base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/executor.hpp"

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

using Handle = struct ProgramObject*;
using Answer = int;
constexpr Answer kDone = 0;
constexpr Answer kCompilationFailed = 6;

// clang-format off
#define GANTRY_NVRTC_FUNCTIONS(X) \
  X(version, "nvrtcVersion", (int* major, int* minor)) \
  X(create, "nvrtcCreateProgram", (Handle* program, const char* source, const char* name, int headers, const char* const* texts, const char* const* names)) \
  X(destroy, "nvrtcDestroyProgram", (Handle* program)) \
  X(compile, "nvrtcCompileProgram", (Handle program, int count, const char* const* options)) \
  X(log_size, "nvrtcGetProgramLogSize", (Handle program, std::size_t* bytes)) \
  X(log, "nvrtcGetProgramLog", (Handle program, char* text)) \
  X(ptx_size, "nvrtcGetPTXSize", (Handle program, std::size_t* bytes)) \
  X(ptx, "nvrtcGetPTX", (Handle program, char* text)) \
  X(cubin_size, "nvrtcGetCUBINSize", (Handle program, std::size_t* bytes)) \
  X(cubin, "nvrtcGetCUBIN", (Handle program, char* code)) \
  X(targets, "nvrtcGetNumSupportedArchs", (int* count)) \
  X(target_list, "nvrtcGetSupportedArchs", (int* capabilities))
// clang-format on

struct Nvrtc {
#define GANTRY_NVRTC_MEMBER(member, symbol, parameters) Answer(*member) parameters = nullptr;
  GANTRY_NVRTC_FUNCTIONS(GANTRY_NVRTC_MEMBER)
#undef GANTRY_NVRTC_MEMBER
  const char* (*error_string)(Answer answer) = nullptr;
};

std::optional<Nvrtc> load_nvrtc(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Nvrtc nvrtc;
#define GANTRY_NVRTC_FIND(member, symbol, parameters) \
  if (!find(library, symbol, nvrtc.member)) return std::nullopt;
  GANTRY_NVRTC_FUNCTIONS(GANTRY_NVRTC_FIND)
#undef GANTRY_NVRTC_FIND
  if (!find(library, "nvrtcGetErrorString", nvrtc.error_string)) return std::nullopt;
  return nvrtc;
}

/// Compiles code for the device itself if the compiler knows it: it loads at once, and by drivers
/// older than the compiler, too. Otherwise uses the newest language that the device understands.
struct Target {
  int capability = 0;
  bool is_exact = true;
};

Target target_for(const Nvrtc& nvrtc, int capability) {
  int count = 0;
  if (nvrtc.targets(&count) != kDone || count <= 0) return {capability, true};
  std::vector<int> known(static_cast<std::size_t>(count));
  if (nvrtc.target_list(known.data()) != kDone) return {capability, true};
  std::erase_if(known, [&](int one) { return one > capability; });
  if (known.empty()) return {capability, true};  // too old a device: the compiler says so
  const int best = std::ranges::max(known);
  return {best, best == capability};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

class Compilation {
 public:
  explicit Compilation(const Nvrtc& nvrtc) noexcept : nvrtc_(nvrtc) {}
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() {
    if (program_ != nullptr) nvrtc_.destroy(&program_);
  }

  Answer run(const ProgramSource& source, Target target) {
    std::vector<std::string> words = words_of(source.cuda.options);
    words.push_back(fmt::format("--gpu-architecture={}_{}", target.is_exact ? "sm" : "compute",
                                target.capability));
    std::vector<const char*> options;
    for (const std::string& word : words) options.push_back(word.c_str());
    const Answer made = nvrtc_.create(&program_, source.cuda.source.c_str(), source.name.c_str(), 0,
                                      nullptr, nullptr);
    if (made != kDone) return made;
    return nvrtc_.compile(program_, static_cast<int>(options.size()), options.data());
  }
  [[nodiscard]] std::string log() const {
    std::string text = get(nvrtc_.log_size, nvrtc_.log);
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }
  /// Empty: there is none.
  [[nodiscard]] std::string image(bool is_exact) const {
    return is_exact ? get(nvrtc_.cubin_size, nvrtc_.cubin) : get(nvrtc_.ptx_size, nvrtc_.ptx);
  }

 private:
  [[nodiscard]] std::string get(Answer (*size)(Handle, std::size_t*),
                                Answer (*text)(Handle, char*)) const {
    std::size_t bytes = 0;
    if (program_ == nullptr || size(program_, &bytes) != kDone) return {};
    std::string answer(bytes, '\0');
    return text(program_, answer.data()) == kDone ? answer : std::string();
  }

  const Nvrtc& nvrtc_;
  Handle program_ = nullptr;
};

constexpr Bytes kSharedAlignment = 16;  // of each local argument: the largest vector type
constexpr Bytes kEverybodysShared = Bytes{48} << 10;  // beyond it a kernel has to ask
constexpr std::size_t kMostParameters = 1024;         // 4 KiB of them, in words
constexpr std::size_t kChosenGroup = 256;  // enough warps to hide latency, on every device

struct Shape {
  std::array<std::size_t, 3> grid{1, 1, 1};
  std::array<std::size_t, 3> block{1, 1, 1};
};

const LaunchedKernel& kernel_of(const Operation& operation) {
  return static_cast<const LaunchedKernel&>(*operation.kernel);
}

// The first dimension first, since neighbours in it lie side by side in memory.
std::array<std::size_t, 3> chosen_group(const LaunchRange& range, const Limits& limits,
                                        std::size_t most) noexcept {
  std::array<std::size_t, 3> block{1, 1, 1};
  std::size_t room = std::min({kChosenGroup, most, limits.threads_per_block});
  for (std::size_t i = 0; i < block.size(); ++i) {
    block[i] = std::max(std::min({range.items[i], limits.block[i], room}), std::size_t{1});
    room /= block[i];
  }
  return block;
}

Shape shape_of(const Operation& operation, const Limits& limits) noexcept {
  const LaunchRange& range = operation.range;
  Shape shape;
  shape.block = range.group_count() == 0
                    ? chosen_group(range, limits, kernel_of(operation).max_group)
                    : range.group;
  for (std::size_t i = 0; i < shape.grid.size(); ++i) {
    shape.block[i] = std::max(shape.block[i], std::size_t{1});
    shape.grid[i] = range.items[i] / shape.block[i] + (range.items[i] % shape.block[i] != 0);
  }
  return shape;
}

bool is_local(const KernelArgument& argument) noexcept {
  return !argument.is_buffer() && argument.value().empty();
}

// One block of memory for all of them, in their order; saturates.
Bytes shared_bytes(const Operation& operation) noexcept {
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  Bytes all = 0;
  for (const KernelArgument& argument : operation.arguments) {
    const Bytes bytes = argument.local_bytes();
    const Bytes padding = (kSharedAlignment - bytes % kSharedAlignment) % kSharedAlignment;
    if (bytes > kMost - padding || bytes + padding > kMost - all) return kMost;
    all += bytes + padding;
  }
  return all;
}

/// Says why an operation cannot be launched.
class Check {
 public:
  Check(const Context& context, const Operation& operation)
      : context_(context), operation_(operation), kernel_(kernel_of(operation)) {}

  [[nodiscard]] Result<void> shape() const {
    const Limits& limits = context_.limits;
    const std::size_t group = operation_.range.group_count();
    const std::size_t most = std::min(kernel_.max_group, limits.threads_per_block);
    if (group > most) return invalid(fmt::format("a group of {} items; at most {}", group, most));
    const Shape shape = shape_of(operation_, limits);
    for (std::size_t i = 0; i < shape.grid.size(); ++i) {
      if (shape.block[i] > limits.block[i])
        return invalid(fmt::format("a group of {} items in dimension {}; at most {}",
                                   shape.block[i], i, limits.block[i]));
      if (shape.grid[i] > limits.grid[i])
        return invalid(
            fmt::format("{} groups in dimension {}; at most {}", shape.grid[i], i, limits.grid[i]));
    }
    const Bytes shared = shared_bytes(operation_);
    const Bytes room =
        limits.shared_bytes - std::min(limits.shared_bytes, kernel_.static_shared_bytes);
    if (shared <= room) return {};
    return invalid(fmt::format("{} bytes of local memory; at most {}", shared, room));
  }

  [[nodiscard]] Result<void> arguments() const {
    std::size_t index = 0;
    std::size_t place = 0;
    for (const KernelArgument& argument : operation_.arguments) {
      const Bytes size = argument.is_buffer() ? sizeof(Address) : argument.value().size();
      if (!is_local(argument)) {
        const bool is_wrong = kernel_.knows_parameters && place < kernel_.parameter_bytes.size() &&
                              kernel_.parameter_bytes[place] != size;
        if (is_wrong)
          return invalid(fmt::format("argument {} has {} bytes, the kernel takes {}", index, size,
                                     kernel_.parameter_bytes[place]));
        ++place;
      }
      ++index;
    }
    const bool is_right = kernel_.knows_parameters ? place == kernel_.parameter_bytes.size()
                                                   : place <= kMostParameters;
    if (is_right) return {};
    return invalid(fmt::format(
        "it takes {} arguments, {} were given",
        kernel_.knows_parameters ? kernel_.parameter_bytes.size() : kMostParameters, place));
  }

 private:
  [[nodiscard]] tl::unexpected<Error> invalid(const std::string& why) const {
    return fail(Code::invalid_argument,
                fmt::format("{}: launch of '{}': {}", context_.core->name, kernel_.name, why));
  }

  const Context& context_;
  const Operation& operation_;
  const LaunchedKernel& kernel_;
};

/// The driver reads as many entries of this array as the kernel has parameters. If it does not tell
/// how many these are, it finds zeros behind what was given.
class Parameters {
 public:
  explicit Parameters(const Operation& operation) noexcept {
    std::size_t count = 0;
    std::size_t buffers = 0;
    for (const KernelArgument& argument : operation.arguments) {
      if (is_local(argument) || count == kMostParameters) continue;
      if (argument.is_buffer()) {
        addresses_[buffers] = static_cast<const Buffer&>(*argument.buffer()).object.get();
        pointers_[count++] = &addresses_[buffers++];
      } else {  // which the driver only reads
        pointers_[count++] = const_cast<std::byte*>(argument.value().data());
      }
    }
    std::fill(pointers_.begin() + static_cast<std::ptrdiff_t>(count), pointers_.end(),
              static_cast<void*>(zeros_.data()));
  }
  [[nodiscard]] void** data() noexcept { return pointers_.data(); }

 private:
  std::array<Address, kMostParameters> addresses_;
  std::array<void*, kMostParameters> pointers_;
  std::array<std::byte, 4096> zeros_{};
};

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

Result<Compiled> compile(const char* library, std::string_view device, const ProgramSource& source,
                         int capability) {
  const auto nvrtc = load_first(library, kCompilers, load_nvrtc);
  if (!nvrtc)
    return fail(Code::unsupported,
                fmt::format("{}: program '{}': no compiler: {} cannot be opened", device,
                            source.name, library != nullptr ? library : "libnvrtc.so"),
                "install CUDA's NVRTC (apt install libnvrtc12, pip install nvidia-cuda-nvrtc) "
                "and name its folder in LD_LIBRARY_PATH, or hand over ProgramSource::cuda_image");
  const Target target = target_for(*nvrtc, capability);
  Compilation compilation(*nvrtc);
  const Answer answer = compilation.run(source, target);
  std::string log = compilation.log();
  const std::string image = answer == kDone ? compilation.image(target.is_exact) : std::string();
  if (answer == kDone && !image.empty()) {
    const auto bytes = std::as_bytes(std::span(image));
    return Compiled{{bytes.begin(), bytes.end()}, std::move(log)};
  }
  if (log.empty() || answer != kCompilationFailed)
    log = fmt::format("{} ({}){}{}", nvrtc->error_string(answer), answer, log.empty() ? "" : "\n",
                      log);
  return fail(Code::build_failed,
              fmt::format("{}: program '{}' does not compile (options '{}'):\n{}", device,
                          source.name, source.cuda.options, log),
              "the number behind the program's name is the line of the source");
}

std::optional<std::string> compiler_version(const char* library) {
  int major = 0;
  int minor = 0;
  const auto nvrtc = load_first(library, kCompilers, load_nvrtc);
  if (!nvrtc || nvrtc->version(&major, &minor) != kDone) return std::nullopt;
  return fmt::format("NVRTC {}.{}", major, minor);
}

void learn(const Driver& driver, LaunchedKernel& kernel) {
  int value = 0;
  const auto get = [&](FunctionAttribute which) {
    value = 0;
    return driver.function_attribute(&value, which, kernel.function) == kSuccess;
  };
  kernel.max_group =
      get(FunctionAttribute::max_threads_per_block) ? static_cast<std::size_t>(value) : 1;
  kernel.static_shared_bytes =
      get(FunctionAttribute::static_shared) ? static_cast<Bytes>(value) : 0;
  if (driver.parameter_info == nullptr) return;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  while (driver.parameter_info(kernel.function, kernel.parameter_bytes.size(), &offset, &bytes) ==
         kSuccess)
    kernel.parameter_bytes.push_back(bytes);
  kernel.knows_parameters = true;
}

Result<void> check_launch(const Context& context, const Operation& operation) {
  const Check check(context, operation);
  GANTRY_TRY(check.arguments());
  return check.shape();
}

Status launch(const Context& context, const Operation& operation, StreamHandle stream) noexcept {
  const Driver& driver = context.driver;
  const LaunchedKernel& kernel = kernel_of(operation);
  const Shape shape = shape_of(operation, context.limits);
  const Bytes shared = shared_bytes(operation);
  if (shared > kEverybodysShared) {  // all there is: other queues launch it, too
    const Bytes most = context.limits.shared_bytes - kernel.static_shared_bytes;
    if (const Status status = driver.set_function_attribute(
            kernel.function, FunctionAttribute::dynamic, static_cast<int>(most));
        status != kSuccess)
      return status;
  }
  Parameters parameters(operation);
  const auto number = [](std::size_t size) { return static_cast<unsigned>(size); };
  return driver.launch(kernel.function, number(shape.grid[0]), number(shape.grid[1]),
                       number(shape.grid[2]), number(shape.block[0]), number(shape.block[1]),
                       number(shape.block[2]), number(shared), stream, parameters.data(), nullptr);
}

}  // namespace gantry::cuda
