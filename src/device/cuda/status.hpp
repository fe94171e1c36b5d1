#pragma once  // device/cuda/status.hpp: what the driver's answers mean.

#include <string>

#include "device/cuda/driver.hpp"
#include "device/operation.hpp"

namespace gantry::cuda {

inline constexpr Status kSuccess = 0;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kNotFound = 500;

/// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered (700)".
[[nodiscard]] std::string name_of(const Driver& driver, Status status);

/// A kernel did something that ends its context: whatever is asked of it afterwards answers so too,
/// for as long as the process lives.
[[nodiscard]] bool is_fault(Status status) noexcept;

/// What it means for the program, of a call that is not a kernel's end.
[[nodiscard]] Code code_of(Status status) noexcept;

/// Of a call on behalf of `device`: "device: what: status".
[[nodiscard]] tl::unexpected<Error> refused(const Driver& driver, std::string_view device,
                                            std::string_view what, Status status);

}  // namespace gantry::cuda
