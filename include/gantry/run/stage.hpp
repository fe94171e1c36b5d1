#pragma once  // gantry/run/stage.hpp: the old name of gantry/stage.hpp, for one version.
#include <gantry/stage.hpp>
