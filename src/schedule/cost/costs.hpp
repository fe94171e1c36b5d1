#pragma once  // schedule/cost/costs.hpp: costs that make sense.

#include <gantry/schedule/cost.hpp>

namespace gantry {

inline constexpr double kNsPerS = 1e9;

/// Rates are positive, times are not negative, all are finite and far from overflow. Errors:
/// `invalid_argument`.
[[nodiscard]] Result<void> check_costs(const ScheduleCosts& costs);

[[nodiscard]] inline double seconds_of(const TransferCosts& costs, double bytes) noexcept {
  return costs.start_ns / kNsPerS + bytes / costs.bytes_per_s;
}

}  // namespace gantry
