#pragma once  // cuda/program.hpp: modules, their kernels and launches; compiles CUDA C++ with
              // NVRTC, where it is installed.

#include <gantry/kernel.hpp>
#include <optional>

#include "device/cuda/context.hpp"

namespace gantry::cuda {

/// `compiler`: as for compile(). Errors: `unsupported` without source or image, or without a
/// compiler; `build_failed` with the log of the compiler or of the driver's compiler.
[[nodiscard]] Result<Program> build(const ContextPointer& context, const char* compiler,
                                    const ProgramSource& source);

/// Names of the compiler's library, in the order in which they are tried; null ends the list.
inline constexpr const char* kCompilers[] = {"libnvrtc.so.13",   "libnvrtc.so.12",
                                             "libnvrtc.so.11.2", "libnvrtc.so.11.1",
                                             "libnvrtc.so",      nullptr};

struct Compiled {
  std::vector<std::byte> image;  ///< A cubin; PTX if the compiler does not know the device.
  std::string log;
};

/// Compiles for a device of that compute capability (90: 9.0). `library`: one compiler, or null for
/// kCompilers. Errors: `unsupported` without a compiler, `build_failed` with its log.
[[nodiscard]] Result<Compiled> compile(const char* library, std::string_view device,
                                       const ProgramSource& source, int capability);

/// "NVRTC 12.4"; nothing without one.
[[nodiscard]] std::optional<std::string> compiler_version(const char* library);

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
