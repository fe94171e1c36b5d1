#pragma once  // gantry/engine/codec.hpp: how bytes are packed.

#include <gantry/types.hpp>

namespace gantry {

/// What packs bytes so that fewer are stored. The values are those of files: docs/formats/image.md.
enum class Codec : std::uint8_t {
  none = 0,     ///< Stored as they are.
  lz4 = 1,      ///< Unpacked the quickest.
  zstd = 2,     ///< Packed the tightest.
  deflate = 3,  ///< By ISA-L; what Intel IAA unpacks.
};
/// How many there are.
inline constexpr std::size_t kCodecs = 4;
[[nodiscard]] GANTRY_API std::string_view to_string(Codec codec) noexcept;

inline constexpr std::uint32_t kLeastFrameBytes = 64U << 10;  ///< Of Coding::frame_bytes.
inline constexpr std::uint32_t kMostFrameBytes = 512U << 10;  ///< The same.

/// How a run of bytes is packed.
struct Coding {
  Codec codec = Codec::none;  ///< By what.
  /// 2 or 4: the bytes are numbers of so many bytes, and were split into planes before they were
  /// packed (docs/formats/planes.md); 1: they were not.
  std::uint8_t plane_bytes = 1;
  /// Raw bytes that are packed together, each such frame for itself: a power of two from 64 KiB to
  /// 512 KiB. A part of the bytes can be unpacked frame by frame; larger frames pack tighter.
  std::uint32_t frame_bytes = kMostFrameBytes;
  friend bool operator==(const Coding&, const Coding&) = default;
};

}  // namespace gantry
