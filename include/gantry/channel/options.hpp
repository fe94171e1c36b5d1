#pragma once  // gantry/channel/options.hpp: the old name of gantry/channel.hpp, for one version.
#include <gantry/channel.hpp>
