#pragma once  // gantry/channel/early_message.hpp: the old name of gantry/channel.hpp, for one
              // version.
#include <gantry/channel.hpp>
