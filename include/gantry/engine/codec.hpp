#pragma once  // gantry/engine/codec.hpp: the old name of gantry/image.hpp, for one version.
#include <gantry/image.hpp>
