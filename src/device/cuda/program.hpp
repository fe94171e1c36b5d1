#pragma once  // device/cuda/program.hpp: modules and their kernels.

#include "device/cuda/context.hpp"

namespace gantry::cuda {

/// `compiler`: as for compile(). Errors: `unsupported` without source or image, or without a
/// compiler; `build_failed` with the log of the compiler or of the driver's compiler.
[[nodiscard]] Result<Program> build(const ContextPointer& context, const char* compiler,
                                    const ProgramSource& source);

}  // namespace gantry::cuda
