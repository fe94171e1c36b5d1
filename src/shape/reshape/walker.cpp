#include "shape/reshape/walker.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "shape/reshape/rows.hpp"

namespace gantry::shape {
namespace {

constexpr std::int64_t kMostMixed = 4;  // channels that interleave() knows

void advance(std::array<std::int64_t, kMostWalked>& index, const PlanState& state,
             std::int64_t count) noexcept {
  std::size_t i = state.dimensions - 1;
  index[i] += count;
  for (; i > 0 && index[i] >= state.walk[i].extent; --i) {
    index[i - 1] += index[i] / state.walk[i].extent;
    index[i] %= state.walk[i].extent;
  }
}

}  // namespace

void Walker::make(std::byte* to, std::int64_t first, std::int64_t count) noexcept {
  GANTRY_DEBUG_ASSERT(first >= 0);
  GANTRY_DEBUG_ASSERT(count <= state_.count - first);
  Index index{};
  advance(index, state_, first);
  const std::int64_t row = state_.walk[state_.dimensions - 1].extent;
  while (count > 0) {
    std::int64_t made = 0;
    if (const std::int64_t pixels = pixels_at(index, count); pixels > 0) {
      make_pixels(to, index, pixels);
      made = pixels * row;
    } else {
      made = std::min(count, row - index[state_.dimensions - 1]);
      make_row(to, index, first, made);
    }
    to += made * as_bytes_;
    first += made;
    count -= made;
    advance(index, state_, made);
  }
}

// ---- where --------------------------------------------------------------------------------

bool Walker::is_outside(const Index& index) const noexcept {
  for (std::size_t i = 0; i + 1 < state_.dimensions; ++i) {
    const Dimension& dimension = state_.walk[i];
    const std::int64_t at = index[i] - dimension.pad_before;
    if (at < 0 || at >= dimension.inner) return true;
  }
  return false;
}

// Where the row begins in the source, in elements.
std::int64_t Walker::place_of(const Index& index) const noexcept {
  std::int64_t at = state_.first;
  for (std::size_t i = 0; i + 1 < state_.dimensions; ++i) {
    const Dimension& dimension = state_.walk[i];
    const std::int64_t inner = index[i] - dimension.pad_before;
    const bool listed = i == state_.channel && !state_.channel_at.empty();
    at += listed ? state_.channel_at[static_cast<std::size_t>(inner)] : inner * dimension.step;
  }
  return at;
}

// Of a row; 0 if channels make no difference, or run along it.
std::size_t Walker::channel_of(const Index& index) const noexcept {
  if (state_.channel + 1 >= state_.dimensions) return 0;
  return static_cast<std::size_t>(index[state_.channel] - state_.walk[state_.channel].pad_before);
}

// ---- rows ---------------------------------------------------------------------------------

void Walker::make_row(std::byte* to, const Index& index, std::int64_t first,
                      std::int64_t count) noexcept {
  if (is_outside(index)) {
    make_pad(to, count);
    return;
  }
  const Dimension& row = state_.walk[state_.dimensions - 1];
  const std::int64_t from = index[state_.dimensions - 1], until = from + count;
  const std::int64_t begin = std::clamp(row.pad_before, from, until);
  const std::int64_t end = std::clamp(row.pad_before + row.inner, from, until);
  to = make_pad(to, begin - from);
  const std::int64_t place = place_of(index);
  const std::size_t channel = channel_of(index);
  const bool each = state_.channel == state_.dimensions - 1;  // a channel of its own
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t inner = at - row.pad_before;
    Run run{place + inner * row.step, row.step, each ? 1 : end - at, channel, first + (at - from)};
    if (each) {
      run.channel = static_cast<std::size_t>(inner);
      if (!state_.channel_at.empty()) run.at = place + state_.channel_at[run.channel];
    }
    make_run(to, run, streaming_);
    to += run.count * as_bytes_;
    at += run.count;
  }
  make_pad(to, until - end);
}

std::byte* Walker::make_pad(std::byte* to, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i, to += as_bytes_)
    std::memcpy(to, state_.pad.data(), as_bytes_);
  return to;
}

// ---- pixels: a few channels innermost, each of which is a run of its own -------------------

// How many begin here, whole. 0: this is no such place.
std::int64_t Walker::pixels_at(const Index& index, std::int64_t count) const noexcept {
  if (state_.dimensions < 2) return 0;
  const std::size_t last = state_.dimensions - 1;
  const Dimension &channels = state_.walk[last], &pixels = state_.walk[last - 1];
  if (channels.extent < 2 || channels.extent > kMostMixed || channels.is_padded() ||
      pixels.is_padded() || state_.channel == last - 1 || index[last] != 0 || is_outside(index))
    return 0;
  return std::min(count / channels.extent, pixels.extent - index[last - 1]);
}

void Walker::make_pixels(std::byte* to, const Index& index, std::int64_t pixels) noexcept {
  const std::size_t last = state_.dimensions - 1;
  const Dimension &channels = state_.walk[last], &row = state_.walk[last - 1];
  const bool each = state_.channel == last;
  const std::int64_t place = place_of(index);
  std::array<const std::byte*, kMostMixed> lanes{};
  constexpr std::int64_t kLane = kTile / kMostMixed;
  for (std::int64_t done = 0; done < pixels; done += kLane) {
    const std::int64_t now = std::min(kLane, pixels - done);
    for (std::int64_t c = 0; c < channels.extent; ++c) {
      std::byte* lane = mixed_.data() + c * kLane * 8;
      const auto channel = each ? static_cast<std::size_t>(c) : channel_of(index);
      const bool listed = each && !state_.channel_at.empty();
      const std::int64_t step = listed ? state_.channel_at[channel] : c * channels.step;
      make_run(lane, {place + done * row.step + step, row.step, now, channel, c, true}, false);
      lanes[static_cast<std::size_t>(c)] = lane;
    }
    interleave(to, lanes.data(), static_cast<unsigned>(channels.extent),
               static_cast<std::size_t>(now), as_bytes_);
    to += now * channels.extent * as_bytes_;
  }
}

// ---- runs ---------------------------------------------------------------------------------

void Walker::make_run(std::byte* to, Run run, bool streaming) noexcept {
  const bool direct =
      run.step == 1 && !state_.scales && !state_.from_groups && !is_packed(state_.from_element);
  if (direct) {
    const std::size_t bytes = facts_of(state_.from_element).bits / 8;
    convert(as_, to, state_.from_element, source_ + run.at * static_cast<std::int64_t>(bytes),
            static_cast<std::size_t>(run.count), streaming);
    return;
  }
  // Tiles end at whole lines, which go past the cache as such.
  const auto line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64);
  std::int64_t tile = static_cast<std::int64_t>(kTile) - line / as_bytes_;
  while (run.count > 0) {
    Run part = run;
    part.count = std::min(tile, run.count);
    make_tile(to, part, streaming);
    to += part.count * as_bytes_;
    run.at += part.count * run.step;
    if (!run.is_one_channel) run.first += part.count;
    run.count -= part.count;
    tile = kTile;
  }
}

void Walker::make_tile(std::byte* to, const Run& run, bool streaming) noexcept {
  const auto count = static_cast<std::size_t>(run.count);
  if (state_.from_groups) {
    load_groups(run);
    if (state_.scales) scale_tile(run);
    return from_floats(as_, to, floats_.data(), count, streaming);
  }
  const std::byte* raw = load(run);
  if (!state_.scales) return convert(as_, to, state_.from_element, raw, count, streaming);
  if (state_.from_element == Element::u8 && state_.scale_pattern.empty())
    return make_scaled_bytes(to, raw, run, streaming);
  if (is_wide(as_) && is_wide(state_.from_element)) {
    if (raw != reinterpret_cast<const std::byte*>(doubles_.data()))
      to_doubles(doubles_.data(), state_.from_element, raw, count);
    scale_tile(run);
    return from_doubles(as_, to, doubles_.data(), count);
  }
  to_floats(floats_.data(), state_.from_element, raw, count, Narrowing::nearest);
  scale_tile(run);
  from_floats(as_, to, floats_.data(), count, streaming);
}

// Of one channel, or all alike.
void Walker::make_scaled_bytes(std::byte* to, const std::byte* bytes, const Run& run,
                               bool streaming) noexcept {
  const auto count = static_cast<std::size_t>(run.count);
  const float scale = state_.scale[scale_of(run)], offset = state_.offset[scale_of(run)];
  if (as_ == Element::f32) return scaled_floats(to, bytes, count, scale, offset, streaming);
  auto* const floats = reinterpret_cast<std::byte*>(floats_.data());
  scaled_floats(floats, bytes, count, scale, offset, false);
  from_floats(as_, to, floats_.data(), count, streaming);
}

// Elements, or codes, that lie together. Where doubles are made of i32 these lie elsewhere.
const std::byte* Walker::load(const Run& run) noexcept {
  const bool grows = state_.from_element == Element::i32 && is_wide(as_);
  auto* raw = grows ? reinterpret_cast<std::byte*>(floats_.data())
                    : reinterpret_cast<std::byte*>(doubles_.data());
  const auto count = static_cast<std::size_t>(run.count);
  if (is_packed(state_.from_element)) {
    if (run.step == 1) {
      unpack(raw, state_.from_element, source_, static_cast<std::size_t>(run.at), count);
    } else {
      for (std::size_t i = 0; i < count; ++i)
        unpack(raw + i, state_.from_element, source_,
               static_cast<std::size_t>(run.at) + i * static_cast<std::size_t>(run.step), 1);
    }
    return raw;
  }
  const unsigned bytes = facts_of(state_.from_element).bits / 8;
  const std::byte* from = source_ + run.at * bytes;
  if (run.step == 1) return from;
  gather(raw, from, static_cast<std::size_t>(run.step), count, bytes);
  return raw;
}

// A group is decoded again only when the run leaves it.
void Walker::load_groups(const Run& run) noexcept {
  const Groups& groups = *state_.from_groups;
  const std::int64_t size = groups.size;
  const auto bytes = static_cast<std::int64_t>(bytes_of(groups));
  alignas(64) std::array<float, 128> group;  // NOLINT: written before it is read
  std::int64_t decoded = -1;
  for (std::int64_t i = 0; i < run.count;) {
    const std::int64_t at = run.at + i * run.step, begin = at / size;
    const std::int64_t whole = run.step == 1 && at % size == 0 ? (run.count - i) / size : 0;
    if (whole > 0) {
      groups_to_floats(floats_.data() + i, groups, source_ + begin * bytes,
                       static_cast<std::size_t>(whole));
      i += whole * size;
      continue;
    }
    if (begin != decoded) groups_to_floats(group.data(), groups, source_ + begin * bytes, 1);
    decoded = begin;
    floats_[static_cast<std::size_t>(i++)] = group[static_cast<std::size_t>(at % size)];
  }
}

void Walker::scale_tile(const Run& run) noexcept {
  const auto count = static_cast<std::size_t>(run.count);
  const bool wide = is_wide(as_) && is_wide(state_.from_element) && !state_.from_groups;
  const auto from = static_cast<std::size_t>(run.first % state_.period);
  if (!state_.scale_pattern.empty() && run.is_one_channel) {
    const float scale = state_.scale_pattern[from], offset = state_.offset_pattern[from];
    if (wide) return scale_doubles(doubles_.data(), count, scale, offset);
    return scale_floats(floats_.data(), count, scale, offset);
  }
  if (!state_.scale_pattern.empty() && !wide) {
    return scale_floats(floats_.data(), count, state_.scale_pattern.data() + from,
                        state_.offset_pattern.data() + from);
  }
  if (state_.scale_pattern.empty()) {
    const std::size_t c = scale_of(run);
    if (wide) return scale_doubles(doubles_.data(), count, state_.scale[c], state_.offset[c]);
    return scale_floats(floats_.data(), count, state_.scale[c], state_.offset[c]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto c =
        static_cast<std::size_t>((run.first + static_cast<std::int64_t>(i)) % state_.period);
    scale_doubles(doubles_.data() + i, 1, state_.scale_pattern[c], state_.offset_pattern[c]);
  }
}

}  // namespace gantry::shape
