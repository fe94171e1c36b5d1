#pragma once  // tools/gantry/run/process/programs.hpp: which file each stage's command stands for.

#include "run/file/pipeline.hpp"

namespace gantry::run {

/// The file that `command` names: looked up along `path` (as in $PATH) unless it has a slash; a
/// leading "./" or "../" means `folder`. Errors: `not_found`, `permission_denied`; their message
/// says why only.
[[nodiscard]] Result<std::string> find_program(const std::string& command, std::string_view path,
                                               const std::string& folder);

/// Fills in every stage's program. Errors name the place of the command in the file.
[[nodiscard]] Result<void> locate_programs(Pipeline& pipeline);

}  // namespace gantry::run
