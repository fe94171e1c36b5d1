#pragma once  // gantry/schedule/product.hpp: the old name of gantry/product.hpp, for one version.
#include <gantry/product.hpp>
