#include "engine/codec/planes.hpp"

#include <cstring>

namespace gantry::codec {
namespace {

// What has numbers of 2 bytes is taken for u16, of 4 for i32: the bits, and the bits with the sign
// inverted, whatever the numbers are. Nothing if there is no whole number.
std::optional<shape::PlaneLayout> layout_of(unsigned plane_bytes, Bytes bytes) noexcept {
  if (bytes < plane_bytes) return std::nullopt;
  const auto layout = shape::PlaneLayout::make(
      plane_bytes == 2 ? shape::Element::u16 : shape::Element::i32,
      static_cast<std::int64_t>(bytes / plane_bytes), {.unit = Planes::Unit::bytes});
  if (!layout) return std::nullopt;
  return *layout;
}

void copy_rest(Bytes from_byte, ConstByteSpan from, ByteSpan to) noexcept {
  if (from_byte < from.size())
    std::memcpy(to.data() + from_byte, from.data() + from_byte, from.size() - from_byte);
}

}  // namespace

void split_frame(unsigned plane_bytes, ConstByteSpan from, ByteSpan to) noexcept {
  const auto layout = layout_of(plane_bytes, from.size());
  const Bytes whole = layout ? layout->bytes() : 0;
  if (layout) shape::make_planes(*layout, to.data(), 0, whole, from.data());
  copy_rest(whole, from, to);
}

void join_frame(unsigned plane_bytes, ConstByteSpan from, ByteSpan to) noexcept {
  const auto layout = layout_of(plane_bytes, from.size());
  const Bytes whole = layout ? layout->bytes() : 0;
  if (layout) shape::join_planes(*layout, to.data(), 0, whole, from.data());
  copy_rest(whole, from, to);
}

}  // namespace gantry::codec
