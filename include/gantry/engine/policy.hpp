#pragma once  // gantry/engine/policy.hpp: the old name of gantry/engine.hpp, for one version.
#include <gantry/engine.hpp>
