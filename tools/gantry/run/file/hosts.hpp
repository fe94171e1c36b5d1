#pragma once  // tools/gantry/run/file/hosts.hpp: the [hosts] of a pipeline file.

#include "run/file/fields.hpp"
#include "run/file/pipeline.hpp"

namespace gantry::run {

[[nodiscard]] Result<std::vector<Host>> read_hosts(const Source& source, const Fields& file,
                                                   const std::vector<Setting>& settings);

}  // namespace gantry::run
