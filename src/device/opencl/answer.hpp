#pragma once  // device/opencl/answer.hpp: waits for a device that may never answer. Included after
              // <CL/cl.h>.

#include <optional>

#include "device/opencl/driver.hpp"

namespace gantry::opencl {

/// Waits for an event whose queue was flushed and returns its status. Nothing: it had none by then,
/// or the device was given up meanwhile. The driver's own waits have no limit, and one kernel that
/// never ends may hold up every queue of a process.
[[nodiscard]] std::optional<cl_int> wait_until(const Context& context, cl_event event,
                                               Deadline limit);

}  // namespace gantry::opencl
