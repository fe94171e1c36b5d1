#pragma once  // device/cuda/launch.hpp: a kernel, its arguments and its range, for the driver.

#include "device/cuda/context.hpp"

namespace gantry::cuda {

struct LaunchedKernel final : KernelState {
  LaunchedKernel(DeviceToken owner, const std::string& called,
                 std::shared_ptr<const OwnedModule> of, FunctionHandle handle)
      : KernelState(owner, called), module(std::move(of)), function(handle) {}

  const std::shared_ptr<const OwnedModule> module;
  FunctionObject* const function;
  std::size_t max_group = 1;
  Bytes static_shared_bytes = 0;
  bool knows_parameters = false;  ///< Older drivers do not tell.
  std::vector<std::size_t> parameter_bytes;
};

/// Asks the driver about the kernel. `context` must be current.
void learn(const Driver& driver, LaunchedKernel& kernel);

/// Finds errors that can be known before. Errors: `invalid_argument`.
[[nodiscard]] Result<void> check_launch(const Context& context, const Operation& operation);

/// Called in the queue's thread, after check_launch() succeeded.
[[nodiscard]] Status launch(const Context& context, const Operation& operation,
                            StreamHandle stream) noexcept;

}  // namespace gantry::cuda
