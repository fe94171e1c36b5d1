#pragma once  // device/cuda/status.hpp: the meaning of the driver's answers.

#include <string>

#include "device/cuda/driver.hpp"
#include "device/operation.hpp"

namespace gantry::cuda {

inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kNotFound = 500;
inline constexpr Status kLaunchFailed = 719;
inline constexpr Status kNotSupported = 801;

/// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered (700)".
[[nodiscard]] std::string name_of(const Driver& driver, Status status);

/// True if a kernel did something that ends its context: every later call answers the same, for as
/// long as the process lives.
[[nodiscard]] bool is_fault(Status status) noexcept;

/// The code of a call that is not a kernel's end.
[[nodiscard]] Code code_of(Status status) noexcept;

/// The error of a call on behalf of `device`: "device: what: status".
[[nodiscard]] tl::unexpected<Error> refused(const Driver& driver, std::string_view device,
                                            std::string_view what, Status status);

}  // namespace gantry::cuda
