#pragma once  // engine/check.hpp: the rules that every engine holds its callers to.

#include <gantry/engine.hpp>

namespace gantry {

/// Errors: `invalid_argument` for null, wrapping or wrongly overlapping ranges, with the addresses.
[[nodiscard]] Result<void> check_move(const Move& move);
[[nodiscard]] Result<void> check_batch(std::span<const Move> batch, std::size_t depth);
[[nodiscard]] Result<void> check_lane(const LaneOptions& options);

}  // namespace gantry
