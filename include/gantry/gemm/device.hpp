#pragma once  // gantry/gemm/device.hpp: the old name of gantry/gemm.hpp, for one version.
#include <gantry/gemm.hpp>
