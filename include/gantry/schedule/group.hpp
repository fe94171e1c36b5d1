#pragma once  // gantry/schedule/group.hpp: the old name of gantry/group.hpp, for one version.
#include <gantry/group.hpp>
