#include <gantry/shape.hpp>

#include "base/result.hpp"
#include "engine/shape/check_layout.hpp"
#include "engine/shape/state.hpp"

// Plans whose one side lies in planes.
namespace gantry {
namespace {

using shape::PlaneLayout;
using shape::PlanState;

Result<PlaneLayout> layout_of(const Tensor& dense, const Planes& planes) {
  GANTRY_TRY(shape::check_destination(dense));
  const auto element = shape::element_of(dense.type);
  if (!element)
    return fail(Code::invalid_argument,
                fmt::format("a reshape: {} cannot lie in planes", to_string(dense.type)));
  std::int64_t count = 1;
  for (unsigned i = 0; i < dense.dimensions; ++i) count *= dense.shape[i];
  return PlaneLayout::make(*element, count, planes);
}

Tensor bytes_of(const PlaneLayout& layout) noexcept {
  const auto bytes = static_cast<std::int64_t>(layout.bytes());
  return Tensor::dense(types::u8, {&bytes, 1});
}

}  // namespace

Result<ReshapePlan> ReshapePlan::to_planes(const Tensor& from, const Planes& planes) {
  return guarded([&]() -> Result<ReshapePlan> {
    GANTRY_ASSIGN(const PlaneLayout layout, layout_of(from, planes));
    auto state = std::make_shared<PlanState>();
    state->from = from;
    state->to = bytes_of(layout);
    state->to_bytes = layout.bytes();
    state->from_bytes = layout.dense_bytes();
    state->unit = layout.unit();
    state->kind = ReshapeClass::permuting;
    state->to_planes = layout;
    return ReshapePlan(std::move(state));
  });
}

Result<ReshapePlan> ReshapePlan::from_planes(const Tensor& to, const Planes& planes) {
  return guarded([&]() -> Result<ReshapePlan> {
    GANTRY_ASSIGN(const PlaneLayout layout, layout_of(to, planes));
    auto state = std::make_shared<PlanState>();
    state->from = bytes_of(layout);
    state->to = to;
    state->to_bytes = layout.dense_bytes();
    state->from_bytes = layout.bytes();
    state->unit = layout.dense_unit();
    state->kind = ReshapeClass::permuting;
    state->from_planes = layout;
    return ReshapePlan(std::move(state));
  });
}

}  // namespace gantry
