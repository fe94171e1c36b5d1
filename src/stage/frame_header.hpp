#pragma once  // stage/frame_header.hpp: the header before a payload on transports other than ours.

#include <cstdint>
#include <gantry/channel/message.hpp>
#include <gantry/channel/options.hpp>

namespace gantry {

/// Precedes every payload. `end` closes the stream; a stream that stops without it broke off. Both
/// ends are of one machine and one build, so the numbers travel as they are.
struct FrameHeader {
  enum class Kind : std::uint32_t { data = 1, end = 2 };
  static constexpr std::uint32_t kMagic = 0x4e465047;  // "GPFN"

  std::uint32_t magic = kMagic;
  Kind kind = Kind::data;
  std::uint64_t length = 0;      ///< Size of the payload that follows.
  std::uint64_t sent_ticks = 0;  ///< Meter::ticks() when sending began.
  std::uint64_t user = 0;        ///< As in SendOptions; also the next three.
  std::uint64_t correlation = 0;
  std::uint64_t deadline_ns = 0;
  std::uint32_t type = 0;
  std::uint32_t reserved = 0;

  FrameHeader() = default;
  /// The header of a message of `bytes` bytes.
  FrameHeader(Bytes bytes, const SendOptions& options) noexcept
      : length(bytes),
        user(options.user),
        correlation(options.correlation),
        deadline_ns(options.deadline_ns),
        type(options.type) {}
  [[nodiscard]] MessageInfo info(std::uint64_t sequence) const noexcept {
    return {.sequence = sequence,
            .user = user,
            .type = type,
            .correlation = correlation,
            .deadline_ns = deadline_ns};
  }

  [[nodiscard]] bool valid() const noexcept {
    return magic == kMagic && (kind == Kind::data || kind == Kind::end);
  }
};
static_assert(sizeof(FrameHeader) == 56);

}  // namespace gantry
