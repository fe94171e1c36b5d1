#pragma once  // gantry/shape/tensor.hpp: the old name of gantry/types.hpp, for one version.
#include <gantry/types.hpp>
