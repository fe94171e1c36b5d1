#pragma once  // engine/codec/codec.hpp: packs and unpacks chunks.

#include <array>

#include "engine/codec/frame_codec.hpp"

namespace gantry::codec {

/// A chunk is packed in frames of so many raw bytes, each for itself; the last may have fewer. Two
/// of them, and so what is unpacked and what that is made of, fit in a second-level cache.
inline constexpr Bytes kFrameBytes = Bytes{512} << 10;

/// Unpacks chunks. For one thread at a time; any number of them exist. What a codec needs is made
/// when it is first met.
class Decoder {
 public:
  /// Makes exactly raw.size() bytes of all of `stored`, frame by frame, and takes the CRC-32C of
  /// each frame while it is in the cache. Returns the CRC of `raw`. Nothing is written beyond
  /// `raw`, and no memory is set aside by what `stored` says. `none`: the two have one size;
  /// they may be the same memory, and then nothing is copied. Errors: `invalid_argument`, with
  /// the frame and why; `unsupported`, `out_of_memory`.
  [[nodiscard]] Result<std::uint32_t> decode(Coding coding, ConstByteSpan stored, ByteSpan raw);

 private:
  [[nodiscard]] Result<FrameCodec*> codec_for(Codec codec);
  [[nodiscard]] Result<void> decode_frame(Coding coding, ConstByteSpan stored, ByteSpan raw);

  std::array<std::unique_ptr<FrameCodec>, kCodecs> codecs_;
  std::unique_ptr<std::byte[]> planes_;  // of a frame
};

/// Packs chunks. For one thread at a time.
class Encoder {
 public:
  /// `level`: the codec's; 0: its default. `codec` is not `none`. Errors: those of make_codec().
  [[nodiscard]] static Result<Encoder> make(Codec codec, int level = 0);

  [[nodiscard]] Codec codec() const noexcept { return codec_; }
  /// Packs all of `raw`, which is not empty, in planes of numbers of `plane_bytes` bytes (1: in
  /// none). The same bytes each time, with the same version of the codec's library. Returns the
  /// bytes that were written to `into`; nothing if they find no room there.
  [[nodiscard]] std::optional<Bytes> encode(std::uint8_t plane_bytes, ConstByteSpan raw,
                                            ByteSpan into);

 private:
  Encoder() = default;
  Codec codec_ = Codec::none;
  std::unique_ptr<FrameCodec> frames_;
  std::unique_ptr<std::byte[]> planes_;
};

}  // namespace gantry::codec
