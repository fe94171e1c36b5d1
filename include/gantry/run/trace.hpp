#pragma once  // gantry/run/trace.hpp: the old name of gantry/runtime.hpp, for one version.
#include <gantry/runtime.hpp>
