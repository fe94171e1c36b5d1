#pragma once  // tools/gantry/run/run_once.hpp: one run of a pipeline, with all that surrounds it.

#include "run/report/report.hpp"

namespace gantry::run {

/// Runs the pipeline over `transport` in a directory of its own below `base` and reports. Nothing
/// is left afterwards, whatever happened.
[[nodiscard]] Result<RunReport> run_once(const Pipeline& pipeline, Transport transport,
                                         const std::string& base, const SuperviseOptions& options,
                                         const cli::Interrupt& interrupt);

}  // namespace gantry::run
