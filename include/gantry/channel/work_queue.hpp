#pragma once  // gantry/channel/work_queue.hpp: the old name of gantry/call.hpp, for one version.
#include <gantry/call.hpp>
