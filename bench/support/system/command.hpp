#pragma once  // bench/support/system/command.hpp: short programs of the system, run to their end.

#include <string>
#include <vector>

#include "posix.hpp"

namespace gantry::bench {

/// Runs a program that is found by $PATH, and waits for its end. It starts in the network namespace
/// of the calling thread. Errors: `not_found` when there is none of that name; `system` with the
/// first line of what it said to standard error, when it failed.
[[nodiscard]] Result<void> run_command(std::vector<std::string> words);

/// Runs a program that is found by its path or $PATH, and waits for its end. Returns its standard
/// output. Errors: `system` with the first line of its standard error, when the program failed or
/// did not start.
[[nodiscard]] Result<std::string> output_of(std::vector<std::string> words);

}  // namespace gantry::bench
