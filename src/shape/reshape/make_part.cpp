#include <algorithm>
#include <cstring>

#include "shape/reshape/walker.hpp"

namespace gantry::shape {
namespace {

constexpr Bytes kLine = 64;

/// Where made bytes go: to lines of our own first. What is made in small pieces would wait for each
/// line of the destination several times, if somebody else's cache has it.
class Sink {
 public:
  Sink(std::byte* to, bool streaming) noexcept : to_(to), streaming_(streaming) {}

  static constexpr Bytes kMostAtOnce = 2048;
  /// Where the next bytes are made, at most kMostAtOnce; then take() is told how many they were.
  [[nodiscard]] std::byte* room(Bytes bytes) noexcept {
    if (kHeld - held_ < bytes) pass_lines_on();
    return lines_.data() + held_;
  }
  void take(Bytes bytes) noexcept { held_ += bytes; }
  void flush() noexcept {
    if (held_ > 0) std::memcpy(to_, lines_.data(), held_);
    to_ += held_;
    held_ = 0;
  }

 private:
  static constexpr Bytes kHeld = 4096;
  static_assert(kHeld - kLine >= kMostAtOnce);
  // All but the last line if that is not whole.
  void pass_lines_on() noexcept {
    const Bytes end = (reinterpret_cast<std::uintptr_t>(to_) + held_) % kLine;
    const Bytes whole = held_ - std::min(end, held_);
    convert(Element::u8, to_, Element::u8, lines_.data(), whole, streaming_);
    std::memmove(lines_.data(), lines_.data() + whole, held_ - whole);
    to_ += whole;
    held_ -= whole;
  }

  std::byte* to_;
  bool streaming_;
  Bytes held_ = 0;
  alignas(64) std::array<std::byte, kHeld> lines_;  // NOLINT: written before it is read
};

// `make(first, count, to)` makes whole units; a range may begin and end within one.
template <class Make>
void cut_units(Bytes unit, Bytes from, Bytes bytes, Sink& sink, std::size_t at_a_time,
               Make make) noexcept {
  std::array<std::byte, 256> part;  // NOLINT: written before it is read; larger than any unit
  for (Bytes at = from, end = from + bytes; at < end;) {
    const Bytes first = at / unit, within = at % unit;
    const std::size_t whole = within == 0 ? std::min<Bytes>(at_a_time, (end - at) / unit) : 0;
    const Bytes made = whole > 0 ? whole * unit : std::min(unit - within, end - at);
    std::byte* const to = sink.room(made);
    if (whole > 0) {
      make(first, whole, to);
    } else {
      make(first, std::size_t{1}, part.data());
      std::memcpy(to, part.data() + within, made);
    }
    sink.take(made);
    at += made;
  }
  sink.flush();
}

/// Floats that lie as groups want them; null: they do not.
const float* floats_in_place(const PlanState& state, const std::byte* source) noexcept {
  const Dimension& row = state.walk[0];
  const bool as_they_lie = state.dimensions == 1 && row.step == 1 && !row.is_padded() &&
                           state.from_element == Element::f32 && !state.from_groups &&
                           !state.scales && state.channel == kNoChannels;
  return as_they_lie ? reinterpret_cast<const float*>(source) + state.first : nullptr;
}

void make_groups(const PlanState& state, Sink& sink, const std::byte* source, Bytes from,
                 Bytes bytes) noexcept {
  const Groups& groups = *state.to_groups;
  Walker walker(state, source, Element::f32, false);
  const float* const there = floats_in_place(state, source);
  alignas(64) std::array<float, kTile> floats;  // NOLINT: written before it is read
  const auto make = [&](Bytes first, std::size_t count, std::byte* to) {
    const std::size_t numbers = count * groups.size;
    if (there != nullptr) return floats_to_groups(to, groups, there + first * groups.size, count);
    walker.make(reinterpret_cast<std::byte*>(floats.data()),
                static_cast<std::int64_t>(first * groups.size), static_cast<std::int64_t>(numbers));
    floats_to_groups(to, groups, floats.data(), count);
  };
  cut_units(state.unit, from, bytes, sink, kTile / groups.size, make);
}

void make_packed(const PlanState& state, Sink& sink, const std::byte* source, Bytes from,
                 Bytes bytes) noexcept {
  Walker walker(state, source, state.to_element, false);
  alignas(64) std::array<std::byte, kTile> codes;  // NOLINT: written before it is read
  const auto make = [&](Bytes first, std::size_t count, std::byte* to) {
    const auto begin = static_cast<std::int64_t>(2 * first);
    const std::int64_t numbers =
        std::min(static_cast<std::int64_t>(2 * count), state.count - begin);
    walker.make(codes.data(), begin, numbers);
    pack(to, codes.data(), static_cast<std::size_t>(numbers));
  };
  cut_units(1, from, bytes, sink, kTile / 2, make);
}

// A part of one element.
void make_within(Walker& walker, std::byte* to, Bytes unit, Bytes from, Bytes bytes) noexcept {
  std::array<std::byte, 8> element{};
  walker.make(element.data(), static_cast<std::int64_t>(from / unit), 1);
  std::memcpy(to, element.data() + from % unit, bytes);
}

void make_elements(const PlanState& state, std::byte* to, const std::byte* source, Bytes from,
                   Bytes bytes, bool streaming) noexcept {
  const Bytes unit = state.unit;
  Walker walker(state, source, state.to_element, streaming);
  const Bytes head = std::min((unit - from % unit) % unit, bytes);
  if (head > 0) make_within(walker, to, unit, from, head);
  const Bytes whole = (bytes - head) / unit * unit;
  if (whole > 0)
    walker.make(to + head, static_cast<std::int64_t>((from + head) / unit),
                static_cast<std::int64_t>(whole / unit));
  const Bytes tail = bytes - head - whole;
  if (tail > 0) make_within(walker, to + head + whole, unit, from + head + whole, tail);
}

}  // namespace

void PlanState::make(std::byte* made, const std::byte* source, Bytes at, Bytes bytes,
                     bool streaming) const noexcept {
  const PlanState& state = *this;
  if (state.to_planes) return make_planes(*state.to_planes, made, at, bytes, source);
  if (state.from_planes) return join_planes(*state.from_planes, made, at, bytes, source);
  if (!state.to_groups && !is_packed(state.to_element))
    return make_elements(state, made, source, at, bytes, streaming);
  if (state.copies_groups) {
    const Bytes before = static_cast<Bytes>(state.first) / state.to_groups->size * state.unit;
    return convert(Element::u8, made, Element::u8, source + before + at, bytes, streaming);
  }
  Sink sink(made, streaming);
  if (state.to_groups)
    make_groups(state, sink, source, at, bytes);
  else
    make_packed(state, sink, source, at, bytes);
}

}  // namespace gantry::shape
