#pragma once  // channel/producer/mode_choice.hpp: how a message goes whose sender left it open.

#include <algorithm>
#include <bit>
#include <gantry/channel.hpp>

#include "channel/wire/format.hpp"

namespace gantry {

// docs/results/ipc.md has the sizes that were tried.
inline constexpr Bytes kPipelinedFrom = Bytes{128} << 10;  // automatic
inline constexpr Bytes kChunkedFrom = Bytes{32} << 10;  // smaller go whole, whatever was asked for

inline constexpr Bytes kSmallestChunk = Bytes{16} << 10;
static_assert(kSmallestChunk >= kLeastChunk);
inline constexpr Bytes kLargestChunk = Bytes{256} << 10;
inline constexpr Bytes kChunksAMessage = 16;  // for the sizes between

/// Of a message that goes pipelined or streamed.
[[nodiscard]] constexpr Bytes chunk_of(Bytes payload) noexcept {
  return std::clamp(std::bit_floor(payload / kChunksAMessage), kSmallestChunk, kLargestChunk);
}

/// From here on a second thread is worth waking. docs/results/ipc-peers.md
inline constexpr Bytes kByTwoFrom = Bytes{4} << 20;
[[nodiscard]] constexpr bool is_for_two(Bytes copied) noexcept {
  return copied >= kByTwoFrom;
}

struct ModeQuestion {
  SendMode asked = SendMode::automatic;    ///< SendOptions
  SendMode channel = SendMode::automatic;  ///< PayloadOptions
  Bytes copied = 0;                        ///< Of the payload, what is copied.
  bool needs_table = false;                ///< Several segments, or a tensor.
  bool all_block = true;                   ///< No consumer is there that must hold nobody up.
  bool has_second = false;                 ///< A second thread may copy, too.
};

[[nodiscard]] SendMode choose_mode(const ModeQuestion& question) noexcept;
/// Why choose_mode() says so; for people.
[[nodiscard]] std::vector<std::string> explain_mode(const ModeQuestion& question);

}  // namespace gantry
