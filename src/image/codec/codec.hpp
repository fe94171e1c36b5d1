#pragma once  // codec/codec.hpp: packs and unpacks chunks.

#include <array>
#include <vector>

#include "image/codec/frame_codec.hpp"

namespace gantry::codec {

/// A chunk is packed in frames of Coding::frame_bytes raw bytes, each for itself; the last may have
/// fewer. Two of the largest, and so what is unpacked and what that is made of, fit in a
/// second-level cache.
struct Frame {
  Bytes at = 0;      ///< In the stored bytes of the chunk.
  Bytes stored = 0;  ///< Its bytes there.
  Bytes raw = 0;     ///< Its bytes unpacked.
};

/// Bytes that the sizes of the frames have, before the first of them.
[[nodiscard]] Bytes head_bytes(Coding coding, Bytes raw_bytes) noexcept;
/// Where frames lie in a chunk of so many stored and raw bytes, which begins with `head`. Errors:
/// `invalid_argument`: they do not fill it exactly, or one is larger than what it holds.
[[nodiscard]] Result<std::vector<Frame>> read_head(Coding coding, ConstByteSpan head,
                                                   Bytes stored_bytes, Bytes raw_bytes);

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
  /// The same of one frame, without a CRC. `coding` is not `none`.
  [[nodiscard]] Result<void> decode_frame(Coding coding, ConstByteSpan stored, ByteSpan raw);

 private:
  [[nodiscard]] Result<FrameCodec*> codec_for(Codec codec);

  std::array<std::unique_ptr<FrameCodec>, kCodecs> codecs_;
  std::unique_ptr<std::byte[]> planes_;  // of a frame
};

/// Packs chunks. For one thread at a time.
class Encoder {
 public:
  /// `level`: the codec's; 0: its default. `codec` is not `none`. Errors: those of make_codec().
  [[nodiscard]] static Result<Encoder> make(Codec codec, int level = 0);

  [[nodiscard]] Codec codec() const noexcept { return codec_; }
  /// Packs all of `raw`, which is not empty; `how` has this codec. The same bytes each time, with
  /// the same version of the codec's library. Returns the bytes that were written to `into`;
  /// nothing if they find no room there.
  [[nodiscard]] std::optional<Bytes> encode(Coding how, ConstByteSpan raw, ByteSpan into);

 private:
  Encoder() = default;
  Codec codec_ = Codec::none;
  std::unique_ptr<FrameCodec> frames_;
  std::unique_ptr<std::byte[]> planes_;
};

}  // namespace gantry::codec
