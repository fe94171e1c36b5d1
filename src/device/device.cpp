#include <gantry/device.hpp>
#include <limits>
#include <stdexcept>

#include "core/base/result.hpp"
#include "device/operation.hpp"

namespace gantry {

std::string_view to_string(DeviceKind kind) noexcept {
  static constexpr std::string_view kNames[] = {"cpu", "opencl", "cuda"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::string_view to_string(QueueRole role) noexcept {
  static constexpr std::string_view kNames[] = {"copy-in", "compute", "copy-out"};
  const auto index = static_cast<std::size_t>(role);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

// ---- ranges --------------------------------------------------------------------------------

namespace {

std::size_t product(const std::array<std::size_t, 3>& sizes) noexcept {
  std::size_t all = 1;
  for (const std::size_t size : sizes)
    if (__builtin_mul_overflow(all, size, &all)) all = std::numeric_limits<std::size_t>::max();
  return all;
}

}  // namespace

std::size_t LaunchRange::count() const noexcept {
  for (const std::size_t size : items)
    if (size == 0) return 0;
  return product(items);
}

std::size_t LaunchRange::group_count() const noexcept {
  if (group == std::array<std::size_t, 3>{}) return 0;
  return product({std::max(group[0], std::size_t{1}), std::max(group[1], std::size_t{1}),
                  std::max(group[2], std::size_t{1})});
}

// ---- handles -------------------------------------------------------------------------------

DeviceBuffer::DeviceBuffer(std::shared_ptr<BufferState> state) noexcept
    : state_(std::move(state)) {}

Bytes DeviceBuffer::size() const noexcept {
  return state_ == nullptr ? 0 : state_->size;
}

ByteSpan DeviceBuffer::host() const noexcept {
  return state_ == nullptr ? ByteSpan() : state_->host;
}

Result<Program> Device::gemm_program() {
  return fail(Code::unsupported, fmt::format("{}: has no library of products", facts().name));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as in devices that keep it
Result<DeviceBuffer> Device::over(ByteSpan, KeepAlive) {
  return fail(Code::unsupported,
              fmt::format("{}: computes in memory of its own only", facts().name),
              "allocate a buffer and copy");
}

KernelArgument::KernelArgument(const DeviceBuffer& buffer)
    : buffer_(buffer.state()), is_buffer_(true) {}

KernelArgument KernelArgument::partials(const DeviceBuffer& buffer, Bytes bytes) {
  KernelArgument argument(buffer);
  argument.partial_bytes_ = bytes;
  return argument;
}

void CpuArguments::misused(std::size_t index) const {
  throw std::out_of_range(
      fmt::format("argument {} of {} is asked for as what it is not", index, items_.size()));
}

std::string_view Kernel::name() const noexcept {
  return state_ == nullptr ? std::string_view() : state_->name;
}

Result<Kernel> Program::kernel(std::string_view name) const {
  if (state_ == nullptr)
    return fail(Code::invalid_argument,
                fmt::format("kernel '{}': asked of an empty program handle", name));
  return guarded([&]() -> Result<Kernel> {
    GANTRY_ASSIGN(auto found, state_->find(name));
    return Kernel(std::move(found));
  });
}

std::string_view Program::log() const noexcept {
  return state_ == nullptr ? std::string_view() : state_->log();
}

Outcome DeviceEvent::outcome() const noexcept {
  return state_ == nullptr ? Outcome::done : state_->outcome();
}

Result<void> DeviceEvent::wait(Deadline deadline) const {
  if (state_ == nullptr) return {};
  return guarded([&] { return state_->wait(deadline); });
}

Result<DeviceTiming> DeviceEvent::timing() const {
  if (state_ == nullptr) return fail(Code::invalid_argument, "the timing of an empty event handle");
  return guarded([&] { return state_->timing(); });
}

}  // namespace gantry
