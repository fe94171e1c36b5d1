#pragma once  // gantry/schedule/rank_status.hpp: the old name of gantry/plan.hpp, for one version.
#include <gantry/plan.hpp>
