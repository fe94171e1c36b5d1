#include <algorithm>
#include <gantry/shape.hpp>

#include "core/runtime/components.hpp"

// What the component shape adds to the core: how calibrations measure reshapes.

namespace gantry {
namespace {

constexpr std::int64_t kChannels = 3;

Tensor row(DataType type, std::int64_t count) {
  return Tensor::dense(type, {&count, 1});
}

Result<ReshapePlan> planes_of_pixels(std::int64_t pixels) {
  const std::array<std::int64_t, 2> interleaved{pixels, kChannels}, planes{kChannels, pixels};
  const ReshapeOptions options{.order = {1, 0},
                               .channels = {2, 1, 0},
                               .scale = {0.017f, 0.0175f, 0.0174f},
                               .offset = {-2.1f, -2.0f, -1.8f}};
  return ReshapePlan::make(Tensor::dense(types::f32, planes), Tensor::dense(types::u8, interleaved),
                           options);
}

// f32 to bf16, u8 to f32, or interleaved pixels of u8 to normalised planes of f32: the plan whose
// destination has so many bytes, or hardly fewer.
Result<ReshapePlan> sample_reshape(ReshapeClass kind, Bytes destination_bytes) {
  const auto count_of = [&](Bytes each) {
    return static_cast<std::int64_t>(std::max<Bytes>(destination_bytes / each, 1));
  };
  switch (kind) {
    case ReshapeClass::narrowing:
      return ReshapePlan::make(types::bf16, row(types::f32, count_of(2)));
    case ReshapeClass::widening:
      return ReshapePlan::make(types::f32, row(types::u8, count_of(4)));
    case ReshapeClass::permuting:
      break;
  }
  return planes_of_pixels(count_of(4 * kChannels));
}

}  // namespace
}  // namespace gantry

GANTRY_COMPONENT(shape, gantry::add_component(*new gantry::Component{gantry::sample_reshape}))
