#pragma once  // engine/check.hpp: the rules every engine holds its callers to.

#include <gantry/engine.hpp>

namespace gantry {

/// Errors: `invalid_argument` for null or overlapping ranges, with the addresses.
[[nodiscard]] Result<void> check_move(const Move& move);

/// Executes [offset, offset+bytes) of a checked move in the calling thread.
void execute(const Move& move, Bytes offset, Bytes bytes) noexcept;

}  // namespace gantry
