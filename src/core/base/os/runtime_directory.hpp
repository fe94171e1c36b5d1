#pragma once  // base/os/runtime_directory.hpp: where the processes of one user find each other.

#include <string>

namespace gantry {

/// As the environment says it. Checks nothing; $GANTRY_DIR may be relative.
[[nodiscard]] std::string runtime_directory_path();

}  // namespace gantry
