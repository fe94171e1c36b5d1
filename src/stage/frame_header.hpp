#pragma once  // stage/frame_header.hpp: the header before a payload on transports other than ours.

#include <cstdint>
#include <gantry/types.hpp>

namespace gantry {

/// Precedes every payload. `end` closes the stream; a stream that stops without it broke off. Both
/// ends are of one machine and one build, so the numbers travel as they are.
struct FrameHeader {
  enum class Kind : std::uint32_t { data = 1, end = 2 };
  static constexpr std::uint32_t kMagic = 0x4d465047;  // "GPFM"

  std::uint32_t magic = kMagic;
  Kind kind = Kind::data;
  std::uint64_t length = 0;      ///< Size of the payload that follows.
  std::uint64_t sent_ticks = 0;  ///< Meter::ticks() when sending began.

  [[nodiscard]] bool valid() const noexcept {
    return magic == kMagic && (kind == Kind::data || kind == Kind::end);
  }
};
static_assert(sizeof(FrameHeader) == 24);

}  // namespace gantry
