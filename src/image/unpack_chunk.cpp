#include "image/unpack_chunk.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/crc32c.hpp"
#include "core/base/result.hpp"
#include "image/tables.hpp"

namespace gantry::image {
namespace {

std::string differs(std::string_view what, std::uint32_t crc, std::uint32_t wanted) {
  return fmt::format("its {} bytes are not those that were packed: their CRC is {:08x}, not {:08x}",
                     what, crc, wanted);
}

/// Errors of one chunk.
struct Place {
  const std::string& path;
  std::size_t index;
  const ImageChunk& chunk;

  [[nodiscard]] tl::unexpected<Error> bad(Code code, std::string_view why, std::string hint) const {
    return fail(code, fmt::format("{}: {}", chunk_place(path, index, chunk.offset), why),
                std::move(hint));
  }
  [[nodiscard]] tl::unexpected<Error> changed(std::string_view why) const {
    return bad(Code::invalid_argument, why, "copy it again from where it came, or pack it anew");
  }
  [[nodiscard]] tl::unexpected<Error> of(const Error& error) const {
    if (error.code == Code::invalid_argument) return changed(error.message);
    return bad(error.code, error.message, error.hint);
  }
  [[nodiscard]] Result<void> check_stored(ConstByteSpan stored) const {
    if (chunk.coding.codec == Codec::none) return {};
    const std::uint32_t crc = crc32c(stored);
    if (crc == chunk.stored_crc32c) return {};
    return changed(differs("stored", crc, chunk.stored_crc32c));
  }
};

}  // namespace

Result<void> unpack_chunk(codec::Decoder& decoder, const std::string& path, std::size_t index,
                          const ImageChunk& chunk, ConstByteSpan stored, ByteSpan raw) {
  GANTRY_DEBUG_ASSERT(stored.size() == chunk.stored_bytes);
  GANTRY_DEBUG_ASSERT(raw.size() == chunk.raw_bytes);
  const Place place{path, index, chunk};
  GANTRY_TRY(place.check_stored(stored));
  const auto crc = decoder.decode(chunk.coding, stored, raw);
  if (!crc) return place.of(crc.error());
  if (*crc == chunk.raw_crc32c) return {};
  return place.changed(differs("raw", *crc, chunk.raw_crc32c));
}

Result<void> unpack_frames(codec::Decoder& decoder, const std::string& path, std::size_t index,
                           const ImageChunk& chunk, ConstByteSpan stored, ByteSpan memory,
                           const TakeFrame& frame) {
  if (chunk.coding.codec == Codec::none) {
    for (Bytes at = 0; at < stored.size(); at += kLeastFrameBytes)
      GANTRY_TRY(
          frame(at, stored.subspan(at, std::min<Bytes>(kLeastFrameBytes, stored.size() - at))));
    return {};
  }
  const Place place{path, index, chunk};
  GANTRY_TRY(place.check_stored(stored));
  const auto frames = codec::read_head(chunk.coding, stored, stored.size(), chunk.raw_bytes);
  if (!frames) return place.of(frames.error());
  Bytes from = 0;
  for (const codec::Frame& one : *frames) {
    const ByteSpan raw = memory.first(one.raw);
    const auto done = decoder.decode_frame(chunk.coding, stored.subspan(one.at, one.stored), raw);
    if (!done) return place.of(done.error());
    GANTRY_TRY(frame(from, raw));
    from += raw.size();
  }
  return {};
}

}  // namespace gantry::image
