#pragma once  // gantry/pipeline/stage.hpp: the old name of gantry/pipeline.hpp, for one version.
#include <gantry/pipeline.hpp>
