#pragma once  // gantry/memory/allocator.hpp: the old name of gantry/memory.hpp, for one version.
#include <gantry/memory.hpp>
