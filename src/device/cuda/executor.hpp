#pragma once  // cuda/executor.hpp: gives operations to a stream, and hears of their ends.

#include "device/cuda/context.hpp"
#include "device/device_memory.hpp"
#include "device/operation.hpp"

namespace gantry::cuda {

struct Buffer final : BufferState {
  Buffer(DeviceToken owner, Bytes bytes, OwnedMemory taken, MemoryBudget::Share part) noexcept
      : BufferState(owner, bytes), share(std::move(part)), object(std::move(taken)) {}
  const MemoryBudget::Share share;
  const OwnedMemory object;
};

/// Errors: the driver's; `system` when no thread can be started.
[[nodiscard]] Result<std::unique_ptr<Executor>> open_executor(const ContextPointer& context);

}  // namespace gantry::cuda
