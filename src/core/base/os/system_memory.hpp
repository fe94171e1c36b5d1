#pragma once  // base/os/system_memory.hpp: how much memory the machine has, and how much is left.

#include <gantry/types.hpp>

namespace gantry {

struct SystemMemory {
  Bytes total = 0;      ///< The machine's, or the control group's limit if smaller.
  Bytes available = 0;  ///< What could still be taken without swapping.
};

/// Reads /proc/meminfo and the control group (v2), which takes some tens of microseconds.
[[nodiscard]] SystemMemory system_memory();

}  // namespace gantry
