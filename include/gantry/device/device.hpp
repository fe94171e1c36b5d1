#pragma once  // gantry/device/device.hpp: the old name of gantry/device.hpp, for one version.
#include <gantry/device.hpp>
