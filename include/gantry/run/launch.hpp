#pragma once  // gantry/run/launch.hpp: the old name of gantry/stage.hpp, for one version.
#include <gantry/stage.hpp>
