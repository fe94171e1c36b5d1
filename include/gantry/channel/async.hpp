#pragma once  // gantry/channel/async.hpp: the old name of gantry/call.hpp, for one version.
#include <gantry/call.hpp>
