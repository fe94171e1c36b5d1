#pragma once  // tools/gantry/run/agent.hpp: this process as a host of a run.

#include <gantry/types.hpp>

namespace gantry::run {

/// Runs one host's stages, for the `gantry run` at standard input and output.
[[nodiscard]] Result<void> run_agent();

}  // namespace gantry::run
