#include <algorithm>
#include <gantry/shape.hpp>

#include "core/tensor/groups.hpp"
#include "shape/reshape/state.hpp"

// Which bytes of the source bytes of the destination are made of.
namespace gantry::shape {
namespace {

struct Elements {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] bool none() const noexcept { return first > last; }
};

// Elements of the destination of which these bytes have a part.
Elements elements_of(const PlanState& state, ByteRange bytes) noexcept {
  std::int64_t each = 1;  // elements of a unit
  if (state.to_groups) each = state.to_groups->size;
  if (!state.to_groups && is_packed(state.to_element)) each = 2;
  const auto first = static_cast<std::int64_t>(bytes.from / state.unit) * each;
  const auto last = (static_cast<std::int64_t>((bytes.end() - 1) / state.unit) + 1) * each - 1;
  return {first, std::min(last, state.count - 1)};
}

// The nearest and the farthest place of the source along a dimension, of indices [from, to].
Elements along(const PlanState& state, std::size_t i, std::int64_t from, std::int64_t to) noexcept {
  const Dimension& dimension = state.walk[i];
  const std::int64_t begin = std::max<std::int64_t>(from - dimension.pad_before, 0);
  const std::int64_t end = std::min(to - dimension.pad_before, dimension.inner - 1);
  if (begin > end) return {0, -1};
  if (i != state.channel || state.channel_at.empty())
    return {begin * dimension.step, end * dimension.step};
  const auto [least, most] =
      std::minmax_element(state.channel_at.begin() + begin, state.channel_at.begin() + end + 1);
  return {*least, *most};
}

// All dimensions within the first one that differs between the two ends are taken whole.
Elements places_of(const PlanState& state, Elements range) noexcept {
  Elements places{state.first, state.first};
  std::int64_t left = state.count;
  bool differs = false;
  for (std::size_t i = 0; i < state.dimensions; ++i) {
    left /= state.walk[i].extent;
    std::int64_t from = 0, to = state.walk[i].extent - 1;
    if (!differs) {
      from = range.first / left;
      to = range.last / left;
      range.first %= left;
      range.last %= left;
      differs = from != to;
    }
    const Elements step = along(state, i, from, to);
    if (step.none()) return {0, -1};
    places.first += step.first;
    places.last += step.last;
  }
  return places;
}

}  // namespace

ByteRange PlanState::source_of(ByteRange destination) const noexcept {
  const PlanState& state = *this;
  if (destination.from >= state.to_bytes || destination.bytes == 0) return {};
  destination.bytes = std::min(destination.bytes, state.to_bytes - destination.from);
  if (state.to_planes) return state.to_planes->dense_of(destination);
  if (state.from_planes) return state.from_planes->image_of(destination);
  const Elements places = places_of(state, elements_of(state, destination));
  if (places.none()) return {};
  const auto least = static_cast<Bytes>(places.first), most = static_cast<Bytes>(places.last);
  Bytes begin = 0, end = 0;
  if (state.from_groups) {
    const Bytes each = bytes_of(*state.from_groups), size = state.from_groups->size;
    begin = least / size * each;
    end = (most / size + 1) * each;
  } else {
    const Bytes bits = facts_of(state.from_element).bits;
    const auto bytes_before = [bits](Bytes elements) {  // whose bits may be more than 64 bits count
      return elements / 8 * bits + elements % 8 * bits / 8;
    };
    begin = bytes_before(least);
    end = most / 8 * bits + ((most % 8 + 1) * bits + 7) / 8;
  }
  return {begin, end - begin};
}

// What a longer front needs reaches at least as far, so the answer can be searched by halves.
Bytes PlanState::destination_from(Bytes source_prefix) const noexcept {
  const PlanState& state = *this;
  if (source_prefix >= state.from_bytes) return state.to_bytes;
  if (state.to_planes) return state.to_planes->image_from(source_prefix);
  if (state.from_planes) return state.from_planes->dense_from(source_prefix);
  Bytes enough = 0, beyond = (state.to_bytes + state.unit - 1) / state.unit;  // in units
  while (enough + 1 < beyond) {
    const Bytes middle = enough + (beyond - enough) / 2;
    if (source_of({0, middle * state.unit}).end() <= source_prefix)
      enough = middle;
    else
      beyond = middle;
  }
  return std::min(enough * state.unit, state.to_bytes);
}

}  // namespace gantry::shape
