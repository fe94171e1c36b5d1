#include <algorithm>
#include <cstring>
#include <gantry/shape.hpp>
#include <numeric>

#include "core/base/result.hpp"
#include "core/tensor/groups.hpp"
#include "shape/reshape/check_layout.hpp"
#include "shape/reshape/reshape_error.hpp"
#include "shape/reshape/rows.hpp"
#include "shape/reshape/state.hpp"

namespace gantry {
namespace {

using shape::Dimension;
using shape::Element;
using shape::kNoChannels;
using shape::PlaneLayout;
using shape::PlanState;

// What elements of a row are made as: groups from floats, packed ones from codes.
Element row_element(const PlanState& state) noexcept {
  return state.to_groups ? Element::f32 : state.to_element;
}

void take_types(PlanState& state) {
  state.to_groups = groups_of(state.to.type);
  state.from_groups = groups_of(state.from.type);
  const auto element = [](const std::optional<Groups>& groups, DataType type) {
    return *shape::element_of(groups ? groups->element : type);
  };
  state.to_element = element(state.to_groups, state.to.type);
  state.from_element = element(state.from_groups, state.from.type);
  if (state.to_groups)
    state.unit = shape::bytes_of(*state.to_groups);
  else
    state.unit = std::max(shape::facts_of(state.to_element).bits / 8, 1u);
}

// Two neighbouring dimensions are one if the outer one's step is the inner one's whole length.
bool can_merge(const Dimension& outer, const Dimension& inner) noexcept {
  return !outer.is_padded() && !inner.is_padded() && outer.step == inner.step * inner.extent;
}

void add_dimension(PlanState& state, const Dimension& dimension, bool is_channel) {
  if (dimension.extent == 1 && !dimension.is_padded() && !is_channel) return;
  const bool after_channel = state.dimensions > 0 && state.channel == state.dimensions - 1;
  if (!is_channel && !after_channel && state.dimensions > 0) {
    Dimension& last = state.walk[state.dimensions - 1];
    if (can_merge(last, dimension)) {
      last = {last.extent * dimension.extent, dimension.step, 0, last.inner * dimension.inner};
      return;
    }
  }
  if (is_channel) state.channel = state.dimensions;
  state.walk[state.dimensions++] = dimension;
}

void lay_walk(PlanState& state, const shape::Layout& layout, unsigned channel) {
  const Tensor &to = state.to, &from = state.from;
  for (unsigned i = 0; i < to.dimensions; ++i) {
    const unsigned source = layout.order[i];
    state.first += layout.crop_from[source] * from.strides[source];
    add_dimension(state, {to.shape[i], from.strides[source], layout.pad_before[i], layout.inner[i]},
                  i == channel);
  }
  if (state.dimensions == 0) state.walk[state.dimensions++] = {1, 1, 0, 1};
  state.count = 1;
  for (std::size_t i = 0; i < state.dimensions; ++i) state.count *= state.walk[i].extent;
}

// Scales that change from element to element lie as long as a tile, from any channel on.
void lay_pattern(PlanState& state) {
  const Dimension channels = state.walk[state.channel];
  const bool innermost = state.channel + 1 == state.dimensions;
  if (!innermost || channels.is_padded() || channels.step != 1 || !state.channel_at.empty() ||
      channels.extent > static_cast<std::int64_t>(shape::kTile))
    return;
  const auto period = static_cast<std::size_t>(channels.extent);
  for (std::size_t i = 0; i < shape::kTile + period; ++i) {
    state.scale_pattern.push_back(state.scale[i % period]);
    state.offset_pattern.push_back(state.offset[i % period]);
  }
  state.period = channels.extent;
  state.channel = kNoChannels;
  if (state.dimensions < 2 || !can_merge(state.walk[state.dimensions - 2], channels)) return;
  Dimension& outer = state.walk[--state.dimensions - 1];
  outer = {outer.extent * channels.extent, 1, 0, outer.inner * channels.inner};
}

void take_channels(PlanState& state, const shape::Layout& layout, unsigned dimension) {
  if (!layout.channels.empty()) {
    const std::int64_t stride = state.from.strides[layout.order[dimension]];
    for (const unsigned c : layout.channels) state.channel_at.push_back(stride * c);
  }
  state.scale = layout.scale;
  state.offset = layout.offset;
  state.scales = !layout.scale.empty();
  if (state.scales && state.scale.size() > 1) lay_pattern(state);
}

bool has_own_channels(const shape::Layout& layout) noexcept {
  return !layout.channels.empty() || layout.scale.size() > 1;
}

void fill_pad(PlanState& state, double value) noexcept {
  const shape::FloatMode mode;
  const Element element = row_element(state);
  if (shape::is_wide(element)) {
    shape::from_doubles(element, state.pad.data(), &value, 1);
  } else {
    float narrowed = 0;
    shape::to_floats(&narrowed, Element::f64, reinterpret_cast<const std::byte*>(&value), 1,
                     element == Element::f32 ? shape::Narrowing::nearest : shape::Narrowing::odd);
    shape::from_floats(element, state.pad.data(), &narrowed, 1, false);
  }
}

ReshapeClass class_of(const PlanState& state) noexcept {
  if (state.dimensions > 1 || state.walk[0].step > 1 || !state.channel_at.empty())
    return ReshapeClass::permuting;
  return state.to_bytes > state.from_bytes ? ReshapeClass::widening : ReshapeClass::narrowing;
}

// Groups that stay what they are are not made anew, which would round.
bool copies_groups(const PlanState& state) noexcept {
  if (!state.to_groups || state.to.type != state.from.type || state.scales) return false;
  const Dimension& row = state.walk[0];
  const bool lies_together = state.dimensions == 1 && row.step == 1 && !row.is_padded();
  return lies_together && state.channel_at.empty() && state.first % state.to_groups->size == 0;
}

// ---- plans whose one side lies in planes ---------------------------------------------------

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

Result<ReshapePlan> ReshapePlan::make(const Tensor& to, const Tensor& from,
                                      const ReshapeOptions& options) {
  return guarded([&]() -> Result<ReshapePlan> {
    auto state = std::make_shared<PlanState>();
    GANTRY_ASSIGN(state->from_bytes, shape::check_source(from));
    GANTRY_ASSIGN(state->to_bytes, shape::check_destination(to));
    GANTRY_ASSIGN(const shape::Layout layout, shape::check_options(to, from, options));
    state->to = to;
    state->from = from;
    take_types(*state);
    const unsigned channel = has_own_channels(layout) ? options.channel_dimension : ~0u;
    lay_walk(*state, layout, channel);
    take_channels(*state, layout, options.channel_dimension);
    fill_pad(*state, options.pad_value);
    state->copies_groups = copies_groups(*state);
    if (!state->copies_groups)
      state->error = shape::error_between(to.type, from.type, state->scales);
    state->kind = class_of(*state);
    const bool lossless = state->error.kind == ReshapeError::Kind::exact && !state->error.saturates;
    if (options.exact && !lossless)
      return fail(Code::invalid_argument,
                  fmt::format("a reshape of {} to {} is not exact: {}", to_string(from.type),
                              to_string(to.type), state->error.text()),
                  "take a type that holds every value, or do without `exact`");
    return ReshapePlan(std::move(state));
  });
}

Result<ReshapePlan> ReshapePlan::make(const Tensor& to, const Tensor& from) {
  return make(to, from, ReshapeOptions{});
}

Result<ReshapePlan> ReshapePlan::make(DataType to, const Tensor& from) {
  if (from.dimensions > Tensor::kMaxDimensions) return make(Tensor{}, from);
  return make(Tensor::dense(to, {from.shape.data(), from.dimensions}), from);
}

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
