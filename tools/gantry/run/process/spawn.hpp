#pragma once  // tools/gantry/run/process/spawn.hpp: starts one stage process.

#include "file_limit.hpp"
#include "run/process/guard.hpp"
#include "run/process/plan.hpp"

namespace gantry::run {

/// A started process, leader of a process group of its own. Only its owner reaps it.
struct Child {
  pid_t pid = 0;
  Descriptor exit;    ///< A pidfd: readable once it has ended.
  Descriptor output;  ///< Its standard output; does not block.
  Descriptor errors;  ///< Its standard error, likewise.
};

/// Starts it with standard input from the launch's, with signals and limits as a shell would give
/// them, with no descriptor beyond the launch's, and with SIGKILL when this process dies. Errors
/// name the label and why it could not be executed; then nothing is left of it.
[[nodiscard]] Result<Child> spawn(const Launch& launch, const RaisedFileLimit& limit, Guard& guard);

}  // namespace gantry::run
