#pragma once  // device/cuda/compiler.hpp: compiles CUDA C++ with NVRTC, where it is installed.

#include <gantry/device/kernel.hpp>
#include <optional>

namespace gantry::cuda {

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

}  // namespace gantry::cuda
