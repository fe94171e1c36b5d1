#pragma once  // gantry/schedule/overlap.hpp: the old name of gantry/plan.hpp, for one version.
#include <gantry/plan.hpp>
