#pragma once  // gantry/shape/decision.hpp: the old name of gantry/decision.hpp, for one version.
#include <gantry/decision.hpp>
