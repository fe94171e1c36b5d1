#pragma once  // statistics.hpp: cheap figures about one tile, from one pass over its fp32 planes.

#include "messages.hpp"

namespace vision {

/// Fills mean, deviation and sharpness from a normalised tile; every value is read.
void measure_tile(const float* tile, TileResult& result);

}  // namespace vision
