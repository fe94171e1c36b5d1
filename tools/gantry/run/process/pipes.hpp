#pragma once  // tools/gantry/run/process/pipes.hpp: pipes with owners.

#include <gantry/types.hpp>

#include "run/process/descriptor.hpp"

namespace gantry::run {

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;

  /// Both ends close on exec and block.
  [[nodiscard]] static Result<Pipe> create();
};

/// Standard input, output and error exist from now on (as /dev/null if need be), so that no pipe
/// made later takes their numbers.
[[nodiscard]] Result<void> keep_standard_streams();

}  // namespace gantry::run
