#pragma once  // tools/gantry/run/file/environment.hpp: the environment variables of a stage.

#include "run/file/pipeline.hpp"
#include "stage_variables.hpp"

namespace gantry::run {

/// The variables that `gantry run` itself sets; a pipeline file may not set them.
[[nodiscard]] const std::vector<std::string>& own_variables();

/// The PATH of a stage: the folder of this `gantry` comes first, so that stages find its
/// `gantry`.
[[nodiscard]] std::string stage_path(const Stage& stage);

/// The whole environment as "NAME=value": this process's, the stage's own on top, then
/// `assigned` (what own_variables() names) and PATH.
[[nodiscard]] std::vector<std::string> stage_environment(const Stage& stage,
                                                         const std::vector<Variable>& assigned);

}  // namespace gantry::run
