#include "messages.hpp"

#include <cmath>

namespace vision {
namespace {

auto refuse(std::string_view what, std::string_view why) {
  return tl::unexpected(gantry::Error{gantry::Code::peer_misbehaved,
                                      std::string(what) + ": " + std::string(why),
                                      "are all stages of the same build?"});
}

/// Copies the next `count` values off the front of `from`; nothing when it is too short.
template <class T>
bool take(ConstByteSpan& from, std::span<T> to) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if (from.size() < to.size_bytes()) return false;
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size_bytes());
  from = from.subspan(to.size_bytes());
  return true;
}

/// A header, if the message is long enough and begins with the header's magic number.
template <class T>
bool take_header(ConstByteSpan& from, T& header) noexcept {
  const auto expected = header.magic;
  return take(from, std::span<T>(&header, 1)) && header.magic == expected;
}

bool is_side(std::uint32_t pixels) noexcept {
  return pixels >= kTileSide && pixels <= kMaxFrameSide;
}

bool lies_within(const TilePlace& place, std::uint32_t width, std::uint32_t height) noexcept {
  return place.x + kTileSide <= width && place.y + kTileSide <= height;
}

bool all_within(std::span<const TilePlace> places, std::uint32_t width, std::uint32_t height) {
  for (const auto& place : places)
    if (!lies_within(place, width, height)) return false;
  return true;
}

bool is_length(float pixels) noexcept {
  return std::isfinite(pixels) && pixels >= 0 && pixels <= kMaxFrameSide;
}

bool is_box(const Person& person) noexcept {
  return is_length(person.x) && is_length(person.y) && is_length(person.width) &&
         is_length(person.height) && std::isfinite(person.score);
}

bool counts_are_sane(const ResultHeader& header) noexcept {
  return header.tiles <= kBatchTiles && header.inspected <= header.tiles &&
         header.people <= kMaxPeople && is_side(header.frame_width) && is_side(header.frame_height);
}

bool contents_are_sane(const ResultView& view) {
  const auto width = view.header.frame_width;
  const auto height = view.header.frame_height;
  for (const auto& tile : view.tiles)
    if (!lies_within(tile.place, width, height)) return false;
  for (const auto& person : view.people)
    if (!is_box(person)) return false;
  return all_within(view.inspected, width, height);
}

}  // namespace

Bytes frame_bytes(const FrameHeader& header) noexcept {
  return sizeof header + Bytes{header.width} * header.height * kChannels;
}

Bytes batch_bytes(const BatchHeader& header) noexcept {
  return kTensorOffset + header.tiles * tile_bytes(header.type);
}

Bytes result_bytes(const ResultHeader& header) noexcept {
  return sizeof header + header.tiles * sizeof(TileResult) + header.people * sizeof(Person) +
         header.inspected * (sizeof(TilePlace) + kTileValues);
}

Result<FrameView> parse_frame(ConstByteSpan message) {
  FrameView view;
  auto rest = message;
  if (!take_header(rest, view.header)) return refuse("frame", "does not begin as one");
  const auto [magic, frame, width, height] = view.header;
  if (width == 0 || height == 0 || width > kMaxVideoSide || height > kMaxVideoSide)
    return refuse("frame", "impossible size");
  if (message.size() != frame_bytes(view.header)) return refuse("frame", "wrong length");
  view.pixels = rest;
  return view;
}

Result<BatchView> parse_batch(ConstByteSpan message) {
  BatchView view;
  auto rest = message;
  if (!take_header(rest, view.header)) return refuse("batch", "does not begin as one");
  const auto& header = view.header;
  if (header.tiles > kBatchTiles) return refuse("batch", "too many tiles");
  if (header.type != gantry::types::f32 && header.type != gantry::types::bf16)
    return refuse("batch", "values of " + to_string(header.type));
  if (!is_side(header.frame_width) || !is_side(header.frame_height))
    return refuse("batch", "impossible frame size");
  if (message.size() != batch_bytes(header)) return refuse("batch", "wrong length");
  if (!all_within(std::span(header.places).first(header.tiles), header.frame_width,
                  header.frame_height))
    return refuse("batch", "a tile lies outside its frame");
  const auto* tensor = message.data() + kTensorOffset;
  if (reinterpret_cast<std::uintptr_t>(tensor) % alignof(float) != 0)
    return refuse("batch", "misaligned tensor");
  view.tensor = message.subspan(kTensorOffset);
  return view;
}

Result<ResultView> parse_result(ConstByteSpan message) {
  ResultView view;
  auto rest = message;
  if (!take_header(rest, view.header)) return refuse("results", "do not begin as such");
  if (!counts_are_sane(view.header)) return refuse("results", "impossible counts");
  if (message.size() != result_bytes(view.header)) return refuse("results", "wrong length");
  view.tiles.resize(view.header.tiles);
  view.people.resize(view.header.people);
  view.inspected.resize(view.header.inspected);
  if (!take(rest, std::span(view.tiles)) || !take(rest, std::span(view.people)) ||
      !take(rest, std::span(view.inspected)))
    return refuse("results", "cut short");
  if (!contents_are_sane(view)) return refuse("results", "a tile or box lies outside its frame");
  view.pixels = rest;
  return view;
}

}  // namespace vision
