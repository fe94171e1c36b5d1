#pragma once  // engine/check.hpp: the rules that every engine holds its callers to.

#include <gantry/engine.hpp>

namespace gantry {

/// True of most moves, and only of such as check_move() finds nothing wrong with.
[[nodiscard]] inline bool is_sound_copy(const Move& move) noexcept {
  const auto to = reinterpret_cast<std::uintptr_t>(move.destination);
  const auto from = reinterpret_cast<std::uintptr_t>(move.source);
  const std::uintptr_t apart = to > from ? to - from : from - to;
  const bool wraps = to + move.bytes < to || from + move.bytes < from;
  return move.kind == Move::Kind::copy && move.cache <= CacheUse::streaming && to != 0 &&
         from != 0 && apart >= move.bytes && !wraps;
}
/// Errors: `invalid_argument` for null, wrapping or wrongly overlapping ranges, with the addresses.
[[nodiscard]] Result<void> check_move(const Move& move);
[[nodiscard]] Result<void> check_batch(std::span<const Move> batch, std::size_t depth);
[[nodiscard]] Result<void> check_lane(const LaneOptions& options);

}  // namespace gantry
