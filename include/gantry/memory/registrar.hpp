#pragma once  // gantry/memory/registrar.hpp: the old name of gantry/memory.hpp, for one version.
#include <gantry/memory.hpp>
