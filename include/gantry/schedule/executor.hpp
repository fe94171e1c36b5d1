#pragma once  // gantry/schedule/executor.hpp: the old name of gantry/plan.hpp, for one version.
#include <gantry/plan.hpp>
