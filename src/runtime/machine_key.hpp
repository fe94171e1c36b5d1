#pragma once  // runtime/machine_key.hpp: what a calibration holds for, as one line of text.

#include <gantry/types.hpp>

namespace gantry {

/// CPU model, CPUs that this process may use, caches, kernel, hypervisor, version and build. Two
/// processes with the same line may share a calibration. Some tens of microseconds.
[[nodiscard]] std::string machine_key();

struct LastLevelCache {
  Bytes bytes = 0;       ///< 0: not told.
  unsigned sharers = 1;  ///< CPUs that share it and this process may use.
};
[[nodiscard]] LastLevelCache last_level_cache();

}  // namespace gantry
