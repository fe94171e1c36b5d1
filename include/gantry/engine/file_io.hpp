#pragma once  // gantry/engine/file_io.hpp: the old name of gantry/file.hpp, for one version.
#include <gantry/file.hpp>
