#pragma once  // channel/status/time_scale.hpp: one scale for all times that a process tells.

namespace gantry {

/// Nanoseconds a tick. Measured anew only while the process is young: a total that was told must
/// not be a little less the next time because the scale became better. Any thread.
[[nodiscard]] double settled_ns_per_tick() noexcept;

}  // namespace gantry
