#pragma once  // calibration/reshape_samples.hpp: a reshape that stands for its class.

#include <gantry/shape.hpp>

namespace gantry {

/// f32 to bf16, u8 to f32, or interleaved pixels of u8 to normalised planes of f32: the plan whose
/// destination has so many bytes, or hardly fewer.
[[nodiscard]] Result<ReshapePlan> sample_reshape(ReshapeClass kind, Bytes destination_bytes);

}  // namespace gantry
