#pragma once  // gantry/device/kernel.hpp: the old name of gantry/kernel.hpp, for one version.
#include <gantry/kernel.hpp>
