#include "device/cuda/launch.hpp"

#include <algorithm>
#include <limits>

#include "base/result.hpp"
#include "device/cuda/executor.hpp"

namespace gantry::cuda {
namespace {

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
