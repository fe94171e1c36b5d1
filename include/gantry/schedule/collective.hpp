#pragma once  // gantry/schedule/collective.hpp: the old name of gantry/collectives.hpp, for one
              // version.
#include <gantry/collectives.hpp>
