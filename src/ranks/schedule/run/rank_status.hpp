#pragma once  // schedule/run/rank_status.hpp: a page that another process wrote, read.

#include <gantry/plan.hpp>

#include "ranks/group/rank_page.hpp"

namespace gantry {

/// What a page says. A function of its bytes and the time (CLOCK_MONOTONIC): numbers are checked,
/// control characters in texts replaced. Errors: `peer_misbehaved` for what is no page, or has a
/// number out of range.
[[nodiscard]] Result<RankStatus> decode_rank_page(ConstByteSpan bytes, std::uint64_t now_ns);

}  // namespace gantry
