#pragma once  // bindings.hpp: whether programs in C and in Python can use this Gantry.

#include <gantry/engine.hpp>
#include <vector>

namespace gantry::cli {

/// Of the library for C and of the package for Python. Starts `python3` of the PATH, for at most
/// ten seconds.
[[nodiscard]] std::vector<EngineStatus> probe_bindings();

}  // namespace gantry::cli
