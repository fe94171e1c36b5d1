#include "engine/codec/codec.hpp"

#include <algorithm>
#include <cstring>

#include "base/crc32c.hpp"
#include "base/result.hpp"
#include "engine/codec/planes.hpp"

namespace gantry {

std::string_view to_string(Codec codec) noexcept {
  constexpr std::array<std::string_view, kCodecs> kNames{"none", "lz4", "zstd", "deflate"};
  const auto index = static_cast<std::size_t>(codec);
  return index < kNames.size() ? kNames[index] : "unknown";
}

namespace codec {
namespace {

using FrameSize = std::uint32_t;  // as stored, before the frames
constexpr Bytes kPassBytes = Bytes{32} << 10;

std::size_t frames_of(Bytes raw) noexcept {
  return (raw + kFrameBytes - 1) / kFrameBytes;
}

template <class Span>
Span frame_of(Span raw, std::size_t frame) noexcept {
  const Bytes from = frame * kFrameBytes;
  return raw.subspan(from, std::min(kFrameBytes, raw.size() - from));
}

FrameSize size_at(ConstByteSpan stored, std::size_t frame) noexcept {
  FrameSize size = 0;
  std::memcpy(&size, stored.data() + frame * sizeof size, sizeof size);
  return size;
}

// Bytes that are not packed, in pieces, so that they are summed from the cache.
std::uint32_t copy_and_sum(ConstByteSpan from, ByteSpan to) noexcept {
  std::uint32_t crc = 0;
  for (Bytes at = 0; at < to.size(); at += kPassBytes) {
    const Bytes bytes = std::min(kPassBytes, to.size() - at);
    if (from.data() != to.data()) std::memcpy(to.data() + at, from.data() + at, bytes);
    crc = crc32c(to.subspan(at, bytes), crc);
  }
  return crc;
}

// The sizes of the frames fill `stored` exactly, and none is larger than what it holds.
Result<void> check_sizes(ConstByteSpan stored, Bytes raw) {
  const std::size_t frames = frames_of(raw);
  Bytes all = frames * sizeof(FrameSize);
  if (all > stored.size())
    return fail(Code::invalid_argument,
                fmt::format("{} bytes do not hold the sizes of {} frames", stored.size(), frames));
  for (std::size_t i = 0; i < frames; ++i) {
    const Bytes size = size_at(stored, i);
    const Bytes most = std::min(kFrameBytes, raw - i * kFrameBytes);
    if (size == 0 || size > most)
      return fail(Code::invalid_argument,
                  fmt::format("frame {}: {} bytes, of 1 to {}", i, size, most));
    all += size;
  }
  if (all == stored.size()) return {};
  return fail(Code::invalid_argument,
              fmt::format("its frames end at {}, of {} bytes", all, stored.size()));
}

Result<void> check_planes(Coding coding) {
  if (coding.plane_bytes == 1 || coding.plane_bytes == 2 || coding.plane_bytes == 4) return {};
  return fail(Code::invalid_argument,
              fmt::format("planes of numbers of {} bytes", coding.plane_bytes));
}

Result<std::uint32_t> decode_plain(ConstByteSpan stored, ByteSpan raw) {
  if (stored.size() == raw.size()) return copy_and_sum(stored, raw);
  return fail(Code::invalid_argument,
              fmt::format("{} bytes are stored of {}, unpacked", stored.size(), raw.size()));
}

}  // namespace

Result<std::unique_ptr<FrameCodec>> make_codec(Codec codec, int level) {
  switch (codec) {
    case Codec::lz4:
      return make_lz4(level);
    case Codec::zstd:
      return make_zstd(level);
    case Codec::deflate:
      return make_deflate(level);
    case Codec::none:
      break;
  }
  return fail(Code::invalid_argument,
              fmt::format("there is no codec {}", static_cast<unsigned>(codec)));
}

Result<FrameCodec*> Decoder::codec_for(Codec codec) {
  const auto index = static_cast<std::size_t>(codec);
  if (index < kCodecs && codecs_[index]) return codecs_[index].get();
  GANTRY_ASSIGN(auto made, make_codec(codec));
  return (codecs_[index] = std::move(made)).get();
}

Result<void> Decoder::decode_frame(Coding coding, ConstByteSpan stored, ByteSpan raw) {
  if (stored.size() == raw.size()) {  // gained nothing, so it is neither packed nor split
    std::memcpy(raw.data(), stored.data(), raw.size());
    return {};
  }
  GANTRY_ASSIGN(FrameCodec* const frames, codec_for(coding.codec));
  const bool is_split = coding.plane_bytes > 1;
  const ByteSpan into = is_split ? ByteSpan(planes_.get(), raw.size()) : raw;
  GANTRY_ASSIGN(const Bytes made, frames->unpack(stored, into));
  if (made != raw.size())
    return fail(Code::invalid_argument, fmt::format("it gives {} bytes of {}", made, raw.size()));
  if (is_split) join_frame(coding.plane_bytes, into, raw);
  return {};
}

Result<std::uint32_t> Decoder::decode(Coding coding, ConstByteSpan stored, ByteSpan raw) {
  if (coding.codec == Codec::none) return decode_plain(stored, raw);
  GANTRY_TRY(check_planes(coding));
  GANTRY_TRY(check_sizes(stored, raw.size()));
  return guarded([&]() -> Result<std::uint32_t> {
    if (coding.plane_bytes > 1 && !planes_) planes_ = std::make_unique<std::byte[]>(kFrameBytes);
    std::uint32_t crc = 0;
    Bytes at = frames_of(raw.size()) * sizeof(FrameSize);
    for (std::size_t i = 0; i < frames_of(raw.size()); ++i) {
      const ByteSpan frame = frame_of(raw, i);
      const Bytes size = size_at(stored, i);
      if (auto done = decode_frame(coding, stored.subspan(at, size), frame); !done)
        return fail(
            done.error().code,
            fmt::format("frame {} of {}: {}", i, to_string(coding.codec), done.error().message),
            done.error().hint);
      crc = crc32c(frame, crc);
      at += size;
    }
    return crc;
  });
}

Result<Encoder> Encoder::make(Codec codec, int level) {
  Encoder encoder;
  GANTRY_ASSIGN(encoder.frames_, make_codec(codec, level));
  encoder.codec_ = codec;
  return guarded([&]() -> Result<Encoder> {
    encoder.planes_ = std::make_unique<std::byte[]>(kFrameBytes);
    return std::move(encoder);
  });
}

std::optional<Bytes> Encoder::encode(std::uint8_t plane_bytes, ConstByteSpan raw, ByteSpan into) {
  const std::size_t frames = frames_of(raw.size());
  Bytes at = frames * sizeof(FrameSize);
  if (at >= into.size()) return std::nullopt;
  for (std::size_t i = 0; i < frames; ++i) {
    const ConstByteSpan frame = frame_of(raw, i);
    ConstByteSpan from = frame;
    if (plane_bytes > 1) {
      split_frame(plane_bytes, frame, {planes_.get(), frame.size()});
      from = {planes_.get(), frame.size()};
    }
    // A frame that gains nothing is stored as it is.
    const ByteSpan rest = into.subspan(at);
    const auto made = frames_->pack(from, rest.first(std::min(rest.size(), frame.size() - 1)));
    if (!made && rest.size() < frame.size()) return std::nullopt;
    if (!made) std::memcpy(rest.data(), frame.data(), frame.size());
    const auto size = static_cast<FrameSize>(made.value_or(frame.size()));
    std::memcpy(into.data() + i * sizeof size, &size, sizeof size);
    at += size;
  }
  return at;
}

}  // namespace codec
}  // namespace gantry
