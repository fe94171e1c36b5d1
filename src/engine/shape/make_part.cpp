#include "engine/shape/make_part.hpp"

#include <algorithm>
#include <cstring>

#include "engine/shape/walker.hpp"

namespace gantry::shape {
namespace {

using detail::ReshapeState;

constexpr Bytes kLine = 64;

/// Where made bytes go. To go past the cache they are gathered to whole lines first.
class Sink {
 public:
  Sink(std::byte* to, bool streaming) noexcept : to_(to), streaming_(streaming) {}
  void put(const std::byte* from, Bytes bytes) noexcept {
    if (!streaming_) {
      std::memcpy(to_, from, bytes);
      to_ += bytes;
      return;
    }
    while (bytes > 0) {
      const Bytes now = std::min(bytes, kHeld - held_);
      std::memcpy(lines_.data() + held_, from, now);
      held_ += now;
      from += now;
      bytes -= now;
      if (held_ == kHeld) flush_lines();
    }
  }
  void flush() noexcept {
    if (held_ > 0) std::memcpy(to_, lines_.data(), held_);
    to_ += held_;
    held_ = 0;
  }

 private:
  static constexpr Bytes kHeld = 4096;
  void flush_lines() noexcept {
    const Bytes end = (reinterpret_cast<std::uintptr_t>(to_) + held_) % kLine;
    const Bytes whole = held_ - end;
    convert(Element::u8, to_, Element::u8, lines_.data(), whole, true);
    std::memmove(lines_.data(), lines_.data() + whole, end);
    to_ += whole;
    held_ = end;
  }

  std::byte* to_;
  bool streaming_;
  Bytes held_ = 0;
  alignas(64) std::array<std::byte, kHeld> lines_;  // NOLINT: written before it is read
};

// `make(first, count, to)` makes whole units; a range may begin and end within one.
template <class Make>
void cut_units(Bytes unit, Bytes from, Bytes bytes, Sink& sink, std::size_t at_a_time,
               std::byte* scratch, Make make) noexcept {
  for (Bytes at = from, end = from + bytes; at < end;) {
    const Bytes first = at / unit, within = at % unit;
    const std::size_t count = std::min<std::size_t>(at_a_time, (end + unit - 1) / unit - first);
    make(first, count, scratch);
    const Bytes made = std::min(count * unit - within, end - at);
    sink.put(scratch + within, made);
    at += made;
  }
  sink.flush();
}

void make_groups(const ReshapeState& state, Sink& sink, const std::byte* source, Bytes from,
                 Bytes bytes) noexcept {
  const Groups& groups = *state.to_groups;
  Walker walker(state, source, Element::f32, false);
  alignas(64) std::array<float, kTile> floats;        // NOLINT: written before it is read
  alignas(64) std::array<std::byte, kTile * 5> made;  // NOLINT: as above
  const auto make = [&](Bytes first, std::size_t count, std::byte* to) {
    const std::size_t numbers = count * groups.size;
    walker.make(reinterpret_cast<std::byte*>(floats.data()),
                static_cast<std::int64_t>(first * groups.size), static_cast<std::int64_t>(numbers));
    floats_to_groups(to, groups, floats.data(), count);
  };
  cut_units(state.unit, from, bytes, sink, kTile / groups.size, made.data(), make);
}

void make_packed(const ReshapeState& state, Sink& sink, const std::byte* source, Bytes from,
                 Bytes bytes) noexcept {
  Walker walker(state, source, state.to_element, false);
  alignas(64) std::array<std::byte, kTile> codes;     // NOLINT: written before it is read
  alignas(64) std::array<std::byte, kTile / 2> made;  // NOLINT: as above
  const auto make = [&](Bytes first, std::size_t count, std::byte* to) {
    const auto begin = static_cast<std::int64_t>(2 * first);
    const std::int64_t numbers =
        std::min(static_cast<std::int64_t>(2 * count), state.count - begin);
    walker.make(codes.data(), begin, numbers);
    pack(to, codes.data(), static_cast<std::size_t>(numbers));
  };
  cut_units(1, from, bytes, sink, kTile / 2, made.data(), make);
}

// A part of one element.
void make_within(Walker& walker, std::byte* to, Bytes unit, Bytes from, Bytes bytes) noexcept {
  std::array<std::byte, 8> element{};
  walker.make(element.data(), static_cast<std::int64_t>(from / unit), 1);
  std::memcpy(to, element.data() + from % unit, bytes);
}

void make_elements(const ReshapeState& state, std::byte* to, const std::byte* source, Bytes from,
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

void make_part(const ReshapeState& state, std::byte* to, const std::byte* source, Bytes from,
               Bytes bytes, bool streaming) noexcept {
  if (state.to_planes) return make_planes(*state.to_planes, to, from, bytes, source);
  if (state.from_planes) return join_planes(*state.from_planes, to, from, bytes, source);
  if (!state.to_groups && !is_packed(state.to_element))
    return make_elements(state, to, source, from, bytes, streaming);
  Sink sink(to, streaming);
  if (state.to_groups)
    make_groups(state, sink, source, from, bytes);
  else
    make_packed(state, sink, source, from, bytes);
}

}  // namespace gantry::shape

namespace gantry {

bool ReshapePlan::convert(ByteSpan to, ConstByteSpan source, Bytes from,
                          Bytes source_from) const noexcept {
  if (from > destination_bytes() || to.size() > destination_bytes() - from) return false;
  const ByteRange needed = source_of({from, to.size()});
  if (needed.bytes > 0 && (needed.from < source_from || needed.end() - source_from > source.size()))
    return false;
  if (to.empty()) return true;
  // Where the whole source would begin; bytes before `source` are not read.
  const auto front = reinterpret_cast<std::uintptr_t>(source.data()) - source_from;
  const shape::FloatMode mode;
  shape::make_part(*state_, to.data(), reinterpret_cast<const std::byte*>(front), from, to.size(),
                   false);
  return true;
}

}  // namespace gantry
