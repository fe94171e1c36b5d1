#pragma once  // base/system_memory.hpp: how much memory there is and how much is left.

#include <gantry/types.hpp>

namespace gantry {

struct SystemMemory {
  Bytes total = 0;      ///< The machine's, or the control group's limit when that is smaller.
  Bytes available = 0;  ///< What could still be taken without swapping.
};

/// Reads /proc/meminfo and the control group (v2): some tens of microseconds.
[[nodiscard]] SystemMemory system_memory();

}  // namespace gantry
