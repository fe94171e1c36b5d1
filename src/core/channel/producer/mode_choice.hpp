#pragma once  // channel/producer/mode_choice.hpp: how a message is sent if its sender did not say.

#include <algorithm>
#include <bit>
#include <gantry/channel.hpp>

#include "core/channel/wire/format.hpp"

namespace gantry {

// The sizes that were tried are in docs/results/ipc.md.
inline constexpr Bytes kPipelinedFrom = Bytes{128} << 10;  // for `automatic`
inline constexpr Bytes kChunkedFrom = Bytes{32} << 10;     // smaller messages go whole in any mode

// Telling of a chunk makes the sender wait until all of it is on its way: docs/results/ipc-small.md
inline constexpr Bytes kSmallestChunk = Bytes{32} << 10;
inline constexpr Bytes kQuietChunk = Bytes{16} << 10;  // of what is told quietly, at no such cost
static_assert(kChunkedFrom / 2 >= kQuietChunk && kQuietChunk >= kLeastChunk);
inline constexpr Bytes kLargestChunk = Bytes{256} << 10;
inline constexpr Bytes kChunksAMessage = 16;  // for sizes in between

/// Chunk of a message that goes pipelined or streamed.
[[nodiscard]] constexpr Bytes chunk_of(Bytes payload) noexcept {
  const Bytes smallest = payload <= kQuietLanding ? kQuietChunk : kSmallestChunk;
  return std::clamp(std::bit_floor(payload / kChunksAMessage), smallest, kLargestChunk);
}

/// The window of a streamed message: whole chunks, and no more than it needs.
inline constexpr Bytes kWindowChunks = 8;
[[nodiscard]] constexpr Bytes window_of(Bytes payload) noexcept {
  const Bytes chunk = chunk_of(payload);
  return std::min(kWindowChunks * chunk, (payload + chunk - 1) / chunk * chunk);
}

/// From this size on a second thread is worth waking. docs/results/ipc-peers.md
inline constexpr Bytes kByTwoFrom = Bytes{4} << 20;
[[nodiscard]] constexpr bool is_for_two(Bytes copied) noexcept {
  return copied >= kByTwoFrom;
}

/// What send_async() copies itself, since handing it over would take longer: a few microseconds to
/// a thread that polls, or a switch or two where the thread has no CPU. docs/results/ipc-small.md
[[nodiscard]] constexpr Bytes quick_up_to(bool is_without_cpu) noexcept {
  return is_without_cpu ? Bytes{1} << 20 : Bytes{64} << 10;
}

struct ModeQuestion {
  SendMode asked = SendMode::automatic;    ///< By SendOptions.
  SendMode channel = SendMode::automatic;  ///< By PayloadOptions.
  Bytes copied = 0;                        ///< Bytes of the payload that are copied.
  bool has_several = false;                ///< Segments.
  bool all_block = true;                   ///< Every consumer has the policy `block`.
  bool has_second = false;                 ///< A second thread may copy, too.
  Bytes cell = 0;                          ///< Up to so many go beside their records.
  std::string no_cell{};                   ///< Why none do that else would. For people.
};

[[nodiscard]] SendMode choose_mode(const ModeQuestion& question) noexcept;
/// Why choose_mode() decides so, for people.
[[nodiscard]] std::vector<std::string> explain_mode(const ModeQuestion& question);

}  // namespace gantry
