#pragma once  // gantry/channel/inbox.hpp: the old name of gantry/call.hpp, for one version.
#include <gantry/call.hpp>
