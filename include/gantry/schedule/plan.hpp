#pragma once  // gantry/schedule/plan.hpp: the old name of gantry/plan.hpp, for one version.
#include <gantry/plan.hpp>
