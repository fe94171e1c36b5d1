#pragma once  // unpack_chunk.hpp: the raw bytes of a chunk that was read.

#include <functional>
#include <gantry/image.hpp>

#include "image/codec/codec.hpp"

namespace gantry::image {

/// Makes `raw`, which has the chunk's raw size, of `stored`, which has its stored size; for a chunk
/// that is not packed the two may be the same memory. Compares both CRCs. Errors:
/// `invalid_argument`, `unsupported`, `out_of_memory`, with image, chunk and offset.
[[nodiscard]] Result<void> unpack_chunk(codec::Decoder& decoder, const std::string& path,
                                        std::size_t index, const ImageChunk& chunk,
                                        ConstByteSpan stored, ByteSpan raw);

/// The same frame by frame: calls `frame` for each, with the offset of its raw bytes, which lie in
/// `memory`, as large as a frame, or in `stored`. Compares the CRC of what is stored, if it is
/// packed; that of the raw bytes is for whoever takes them.
using TakeFrame = std::function<Result<void>(Bytes from, ConstByteSpan raw)>;
[[nodiscard]] Result<void> unpack_frames(codec::Decoder& decoder, const std::string& path,
                                         std::size_t index, const ImageChunk& chunk,
                                         ConstByteSpan stored, ByteSpan memory,
                                         const TakeFrame& frame);

}  // namespace gantry::image
