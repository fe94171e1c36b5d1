#include "image/codec/codec.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/crc32c.hpp"
#include "core/base/text_lines.hpp"
#include "shape/reshape/planes.hpp"

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

std::size_t frames_of(Coding coding, Bytes raw) noexcept {
  return (raw + coding.frame_bytes - 1) / coding.frame_bytes;
}

template <class Span>
Span frame_of(Coding coding, Span raw, std::size_t frame) noexcept {
  const Bytes from = frame * coding.frame_bytes;
  return raw.subspan(from, std::min<Bytes>(coding.frame_bytes, raw.size() - from));
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

Result<void> check(Coding coding) {
  if (coding.plane_bytes != 1 && coding.plane_bytes != 2 && coding.plane_bytes != 4)
    return fail(Code::invalid_argument,
                fmt::format("planes of numbers of {} bytes", coding.plane_bytes));
  if (!std::has_single_bit(coding.frame_bytes) || coding.frame_bytes < kLeastFrameBytes ||
      coding.frame_bytes > kMostFrameBytes)
    return fail(Code::invalid_argument, fmt::format("frames of {} bytes", coding.frame_bytes));
  return {};
}

Result<std::uint32_t> decode_plain(ConstByteSpan stored, ByteSpan raw) {
  if (stored.size() == raw.size()) return copy_and_sum(stored, raw);
  return fail(Code::invalid_argument,
              fmt::format("{} bytes are stored of {}, unpacked", stored.size(), raw.size()));
}

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

// All numbers of a frame in planes, then the bytes that make no whole number as they are.
// `plane_bytes` is 2 or 4. `to` is as long as `from`; they do not overlap.
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

}  // namespace

Bytes head_bytes(Coding coding, Bytes raw_bytes) noexcept {
  return frames_of(coding, raw_bytes) * sizeof(FrameSize);
}

Result<std::vector<Frame>> read_head(Coding coding, ConstByteSpan head, Bytes stored_bytes,
                                     Bytes raw_bytes) {
  GANTRY_TRY(check(coding));
  const std::size_t frames = frames_of(coding, raw_bytes);
  Bytes at = head_bytes(coding, raw_bytes);
  if (at > head.size() || at > stored_bytes)
    return fail(Code::invalid_argument,
                fmt::format("{} bytes do not hold the sizes of {} frames", stored_bytes, frames));
  std::vector<Frame> found(frames);
  for (std::size_t i = 0; i < frames; ++i) {
    FrameSize size = 0;
    std::memcpy(&size, head.data() + i * sizeof size, sizeof size);
    const Bytes raw = std::min<Bytes>(coding.frame_bytes, raw_bytes - i * coding.frame_bytes);
    if (size == 0 || size > raw)
      return fail(Code::invalid_argument,
                  fmt::format("frame {}: {} bytes, of 1 to {}", i, size, raw));
    found[i] = {at, size, raw};
    at += size;
  }
  if (at == stored_bytes) return found;
  return fail(Code::invalid_argument,
              fmt::format("its frames end at {}, of {} bytes", at, stored_bytes));
}

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
  GANTRY_DEBUG_ASSERT(coding.codec != Codec::none);
  GANTRY_ASSIGN(FrameCodec* const frames, codec_for(coding.codec));
  const bool is_split = coding.plane_bytes > 1;
  if (is_split && !planes_) planes_ = std::make_unique<std::byte[]>(kMostFrameBytes);
  const ByteSpan into = is_split ? ByteSpan(planes_.get(), raw.size()) : raw;
  GANTRY_ASSIGN(const Bytes made, frames->unpack(stored, into));
  if (made != raw.size())
    return fail(Code::invalid_argument, fmt::format("it gives {} bytes of {}", made, raw.size()));
  if (is_split) join_frame(coding.plane_bytes, into, raw);
  return {};
}

Result<std::uint32_t> Decoder::decode(Coding coding, ConstByteSpan stored, ByteSpan raw) {
  if (coding.codec == Codec::none) return decode_plain(stored, raw);
  return guarded([&]() -> Result<std::uint32_t> {
    GANTRY_ASSIGN(const auto frames, read_head(coding, stored, stored.size(), raw.size()));
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const ByteSpan frame = frame_of(coding, raw, i);
      if (auto done = decode_frame(coding, stored.subspan(frames[i].at, frames[i].stored), frame);
          !done)
        return prefixed(done.error(), "frame {} of {}", i, to_string(coding.codec));
      crc = crc32c(frame, crc);
    }
    return crc;
  });
}

Result<Encoder> Encoder::make(Codec codec, int level) {
  Encoder encoder;
  GANTRY_ASSIGN(encoder.frames_, make_codec(codec, level));
  encoder.codec_ = codec;
  return guarded([&]() -> Result<Encoder> {
    encoder.planes_ = std::make_unique<std::byte[]>(kMostFrameBytes);
    return std::move(encoder);
  });
}

std::optional<Bytes> Encoder::encode(Coding how, ConstByteSpan raw, ByteSpan into) {
  GANTRY_DEBUG_ASSERT(!raw.empty());
  GANTRY_DEBUG_ASSERT(how.codec == codec_);
  const std::size_t frames = frames_of(how, raw.size());
  Bytes at = head_bytes(how, raw.size());
  if (at >= into.size()) return std::nullopt;
  for (std::size_t i = 0; i < frames; ++i) {
    const ConstByteSpan frame = frame_of(how, raw, i);
    ConstByteSpan from = frame;
    if (how.plane_bytes > 1) {
      split_frame(how.plane_bytes, frame, {planes_.get(), frame.size()});
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
