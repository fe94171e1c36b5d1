#pragma once  // channel/status/time_scale.hpp: one scale for all times that a process tells.

namespace gantry {

/// Nanoseconds a tick: the same number for as long as the process lives, so that no total falls and
/// no time moves from one count to another. Any thread.
[[nodiscard]] double lasting_ns_per_tick() noexcept;

}  // namespace gantry
