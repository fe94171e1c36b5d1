#pragma once  // device/opencl/program.hpp: compiles OpenCL C. Included after <CL/cl.h>.

#include "device/opencl/driver.hpp"

namespace gantry::opencl {

/// Errors: `unsupported` without source, `build_failed` with the log.
[[nodiscard]] Result<Program> build(const std::shared_ptr<const Context>& context,
                                    const ProgramSource& source);

}  // namespace gantry::opencl
