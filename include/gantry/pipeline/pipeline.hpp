#pragma once  // gantry/pipeline/pipeline.hpp: the old name of gantry/pipeline.hpp, for one version.
#include <gantry/pipeline.hpp>
