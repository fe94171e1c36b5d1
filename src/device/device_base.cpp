#include "device/device_base.hpp"

namespace gantry {
namespace {

Result<void> check_size(const DeviceFacts& facts, Bytes size) {
  if (size == 0)
    return fail(Code::invalid_argument, fmt::format("{}: a buffer of 0 bytes", facts.name));
  if (size <= facts.max_buffer_bytes) return {};
  return fail(
      Code::too_large,
      fmt::format("{}: a buffer of {} bytes; at most {}", facts.name, size, facts.max_buffer_bytes),
      "work through it in chunks");
}

}  // namespace

Result<DeviceMemory> DeviceBase::memory() const {
  return if_here([&]() -> Result<DeviceMemory> {
    GANTRY_ASSIGN(const Bytes free, free_bytes());
    return DeviceMemory{facts_.memory_bytes, free};
  });
}

Result<DeviceBuffer> DeviceBase::allocate(Bytes size) {
  return if_here([&]() -> Result<DeviceBuffer> {
    GANTRY_TRY(check_size(facts_, size));
    auto share = budget_->take(size);
    if (!share) return full(size);
    return make_buffer(size, std::move(share));
  });
}

Result<DeviceBuffer> DeviceBase::over(ByteSpan memory, KeepAlive keep) {
  if (facts_.in_place_alignment == 0) return Device::over(memory, std::move(keep));
  return if_here([&]() -> Result<DeviceBuffer> {
    GANTRY_TRY(check_size(facts_, memory.size()));
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    if (at != 0 && at % facts_.in_place_alignment == 0) return make_view(memory, std::move(keep));
    return fail(Code::invalid_argument,
                fmt::format("{}: a buffer over the memory at {:#x}, which is no multiple of {}",
                            facts_.name, at, facts_.in_place_alignment),
                "align the memory, or allocate a buffer and copy");
  });
}

Result<DeviceBuffer> DeviceBase::make_view(ByteSpan memory, KeepAlive keep) {
  return Device::over(memory, std::move(keep));
}

Result<std::unique_ptr<DeviceQueue>> DeviceBase::open_queue(QueueRole role) {
  return if_here([&]() -> Result<std::unique_ptr<DeviceQueue>> {
    GANTRY_ASSIGN(auto executor, make_executor());
    return open_ordered_queue(core_, role, std::move(executor));
  });
}

Result<Program> DeviceBase::build(const ProgramSource& source) {
  return if_here([&] { return make_program(source); });
}

tl::unexpected<Error> DeviceBase::full(Bytes size) const {
  return fail(Code::device_full,
              fmt::format("{}: a buffer of {} bytes: {} bytes are free", facts_.name, size,
                          free_bytes().value_or(0)),
              "use smaller or fewer buffers");
}

}  // namespace gantry
