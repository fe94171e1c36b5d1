#pragma once  // tools/gantry/run/process/programs.hpp: finds the file of each stage's command.

#include "run/file/pipeline.hpp"

namespace gantry::run {

/// Finds the file that `command` names: along `path` (as in $PATH) unless it has a slash; a leading
/// "./" or "../" means `folder`. Errors: `not_found`, `permission_denied`; their message gives only
/// the reason.
[[nodiscard]] Result<std::string> find_program(const std::string& command, std::string_view path,
                                               const std::string& folder);

/// Fills in the programs of the stages on `host`, where a leading "./" means `folder`. Mistakes
/// name the place of the command in the file.
void locate_programs(Pipeline& pipeline, std::size_t host, const std::string& folder,
                     Mistakes& mistakes);
/// Looks for the launchers of the hosts that have stages, likewise.
void locate_launchers(Pipeline& pipeline, Mistakes& mistakes);

}  // namespace gantry::run
