#include "image/unpack_chunk.hpp"

#include "base/crc32c.hpp"
#include "base/result.hpp"
#include "image/tables.hpp"

namespace gantry::image {
namespace {

std::string differs(std::string_view what, std::uint32_t crc, std::uint32_t wanted) {
  return fmt::format("its {} bytes are not those that were packed: their CRC is {:08x}, not {:08x}",
                     what, crc, wanted);
}

}  // namespace

Result<void> unpack_chunk(codec::Decoder& decoder, const std::string& path, std::size_t index,
                          const ImageChunk& chunk, ConstByteSpan stored, ByteSpan raw) {
  const auto bad = [&](Code code, std::string_view why, std::string hint) {
    return fail(code, fmt::format("{}: {}", chunk_place(path, index, chunk.offset), why),
                std::move(hint));
  };
  const auto changed = [&](std::string_view why) {
    return bad(Code::invalid_argument, why, "copy it again from where it came, or pack it anew");
  };
  if (chunk.coding.codec != Codec::none)
    if (const std::uint32_t crc = crc32c(stored); crc != chunk.stored_crc32c)
      return changed(differs("stored", crc, chunk.stored_crc32c));
  const auto crc = decoder.decode(chunk.coding, stored, raw);
  if (crc && *crc == chunk.raw_crc32c) return {};
  if (crc) return changed(differs("raw", *crc, chunk.raw_crc32c));
  if (crc.error().code == Code::invalid_argument) return changed(crc.error().message);
  return bad(crc.error().code, crc.error().message, crc.error().hint);
}

}  // namespace gantry::image
