#pragma once  // codec/frame_codec.hpp: what packs one frame.

#include <gantry/image.hpp>
#include <memory>
#include <optional>

namespace gantry::codec {

/// A library that packs frames: runs of bytes, each for itself. For one thread at a time.
class FrameCodec {
 public:
  FrameCodec() = default;
  FrameCodec(const FrameCodec&) = delete;
  FrameCodec& operator=(const FrameCodec&) = delete;
  virtual ~FrameCodec() = default;

  /// "ISA-L", or with its version "lz4 1.9.4".
  [[nodiscard]] virtual std::string library() const = 0;
  /// Unpacks all of `stored` to the front of `raw` and writes nowhere else, whatever `stored` says.
  /// Returns the bytes that it gave. Errors: `invalid_argument`, why, in the library's words.
  [[nodiscard]] virtual Result<Bytes> unpack(ConstByteSpan stored, ByteSpan raw) = 0;
  /// Returns the bytes that were written to `into`; nothing if they find no room there.
  [[nodiscard]] virtual std::optional<Bytes> pack(ConstByteSpan raw, ByteSpan into) = 0;
};

/// Levels are the library's; 0: its default. Errors: `unsupported` (not in this build, with how to
/// mend that), `invalid_argument` (no such level), `out_of_memory`.
[[nodiscard]] Result<std::unique_ptr<FrameCodec>> make_lz4(int level);
[[nodiscard]] Result<std::unique_ptr<FrameCodec>> make_zstd(int level);
[[nodiscard]] Result<std::unique_ptr<FrameCodec>> make_deflate(int level);
/// The one for `codec`, which is not `none`.
[[nodiscard]] Result<std::unique_ptr<FrameCodec>> make_codec(Codec codec, int level = 0);

}  // namespace gantry::codec
