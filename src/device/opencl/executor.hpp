#pragma once  // opencl/executor.hpp: gives operations to a command queue and hears of their end;
              // compiles programs. Included after <CL/cl.h>.

#include <mutex>

#include "device/device_memory.hpp"
#include "device/opencl/driver.hpp"
#include "device/operation.hpp"

namespace gantry::opencl {

using Kept = KeptMemory<OwnedMemory>;

struct Buffer : BufferState {
  Buffer(DeviceToken owner, Bytes bytes, OwnedMemory taken, KeepAlive held = {}) noexcept
      : BufferState(owner, bytes), keep(std::move(held)), object(std::move(taken)) {}
  const KeepAlive keep;  // destroyed after the object
  OwnedMemory object;
};

/// Memory of the device's own.
struct TakenBuffer final : Buffer {
  TakenBuffer(DeviceToken owner, Bytes bytes, OwnedMemory taken, MemoryBudget::Share part,
              std::shared_ptr<Kept> from, Bytes whole) noexcept
      : Buffer(owner, bytes, std::move(taken)),
        share(std::move(part)),
        kept(std::move(from)),
        room(whole) {}
  ~TakenBuffer() override { kept->give(std::move(object), room); }
  const MemoryBudget::Share share;
  const std::shared_ptr<Kept> kept;
  const Bytes room;  // of the object
};

/// The caller's memory.
struct ViewBuffer final : Buffer {
  ViewBuffer(DeviceToken owner, ByteSpan there, OwnedMemory made, KeepAlive held) noexcept
      : Buffer(owner, there.size(), std::move(made), std::move(held)), begin(there.data()) {}
  const std::byte* const begin;
};

struct LaunchedKernel final : KernelState {
  LaunchedKernel(DeviceToken owner, const std::string& called, OwnedKernel made, cl_uint count,
                 std::size_t group)
      : KernelState(owner, called),
        object(std::move(made)),
        argument_count(count),
        max_group(group) {}
  const OwnedKernel object;
  const cl_uint argument_count;
  const std::size_t max_group;
  // guards the object's arguments, from setting them until the kernel is enqueued
  mutable std::mutex arguments;
};

/// Errors: those of opening a queue.
[[nodiscard]] Result<std::unique_ptr<Executor>> open_executor(
    const std::shared_ptr<const Context>& context);

/// Errors: `unsupported` without source, `build_failed` with the log.
[[nodiscard]] Result<Program> build(const std::shared_ptr<const Context>& context,
                                    const ProgramSource& source);

}  // namespace gantry::opencl
