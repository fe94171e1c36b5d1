#pragma once  // gantry/image/snapshot.hpp: the old name of gantry/snapshot.hpp, for one version.
#include <gantry/snapshot.hpp>
