#pragma once  // runtime/machine_key.hpp: the machine that a calibration holds for, as one line of
              // text.

#include <gantry/types.hpp>

namespace gantry {

/// CPU model, CPUs that this process may use, caches, kernel, hypervisor, version and build. Two
/// processes with the same line may share a calibration. Takes some tens of microseconds.
[[nodiscard]] std::string machine_key();

struct LastLevelCache {
  Bytes bytes = 0;       ///< 0: unknown.
  unsigned sharers = 1;  ///< CPUs that share it and that this process may use.
};
[[nodiscard]] LastLevelCache last_level_cache();

}  // namespace gantry
