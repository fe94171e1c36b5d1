#pragma once  // engine/codec/planes.hpp: frames in planes of bytes.

#include "engine/shape/planes.hpp"

namespace gantry::codec {

/// All numbers of a frame in planes, then the bytes that make no whole number as they are.
/// `plane_bytes` is 2 or 4. `to` is as long as `from`; they do not overlap.
void split_frame(unsigned plane_bytes, ConstByteSpan from, ByteSpan to) noexcept;
void join_frame(unsigned plane_bytes, ConstByteSpan from, ByteSpan to) noexcept;

}  // namespace gantry::codec
