#pragma once  // image/chunk_packer.hpp: how a chunk is packed, and its bytes.

#include "engine/codec/codec.hpp"
#include "image/layout.hpp"

namespace gantry::image {

/// Packs chunks as the options say. For one thread at a time.
class ChunkPacker {
 public:
  /// Errors: those of codec::make_codec().
  [[nodiscard]] static Result<ChunkPacker> make(const ImageOptions& options);

  /// A chunk as it is stored. Valid until the next call, and as long as `raw`.
  struct Packed {
    Coding coding;
    ConstByteSpan bytes;
  };
  /// `number_bytes`: of most of its numbers.
  [[nodiscard]] Packed pack(ConstByteSpan raw, unsigned number_bytes);

 private:
  struct Way {
    codec::Encoder* encoder = nullptr;
    std::uint8_t plane_bytes = 1;
  };
  ChunkPacker() = default;
  [[nodiscard]] Coding coding_of(Way way) const {
    return {way.encoder->codec(), way.plane_bytes, frame_bytes_};
  }
  [[nodiscard]] Way choose(ConstByteSpan raw, std::uint8_t plane_bytes);
  [[nodiscard]] std::optional<Bytes> sample_bytes(Way way, ConstByteSpan raw);

  std::vector<codec::Encoder> encoders_;  // none: stored as they are; two: whichever is better
  bool planes_ = false;
  std::uint32_t frame_bytes_ = kMostFrameBytes;
  std::vector<std::byte> packed_;
  std::vector<std::byte> sample_;
};

/// Bytes of most numbers in bytes [from, from + bytes) of a partition, among whose tensors these
/// are.
[[nodiscard]] unsigned number_bytes_of(std::span<const ImageTensor> tensors, Bytes from,
                                       Bytes bytes) noexcept;

}  // namespace gantry::image
