#pragma once  // tools/gantry/run/file/hosts.hpp: the [hosts] of a pipeline file.

#include "run/file/fields.hpp"
#include "run/file/pipeline.hpp"

namespace gantry::run {

/// A host with a mistake is there, too, so that a stage on it is none.
[[nodiscard]] std::vector<Host> read_hosts(const Source& source, const Fields& file,
                                           const std::vector<Setting>& settings,
                                           Mistakes& mistakes);

}  // namespace gantry::run
