#pragma once  // gantry/link/bridge.hpp: the old name of gantry/bridge.hpp, for one version.
#include <gantry/bridge.hpp>
