#pragma once  // schedule/cost/costs.hpp: costs that make sense.

#include <gantry/plan.hpp>

namespace gantry {

inline constexpr double kNsPerS = 1e9;

/// Rates are positive, times are not negative, all are finite and far from overflow. Errors:
/// `invalid_argument`.
[[nodiscard]] Result<void> check_costs(const ScheduleCosts& costs);

[[nodiscard]] inline double seconds_of(const TransferCosts& costs, double bytes) noexcept {
  return costs.start_ns / kNsPerS + bytes / costs.bytes_per_s;
}

[[nodiscard]] inline bool transfers_take_cpu(const ScheduleCosts& costs) noexcept {
  return costs.cpu_s_per_byte > 0 || costs.cpu_s_per_transfer > 0 || costs.cpu_s_per_row > 0;
}
/// At one end, where it has so many rows that lie apart.
[[nodiscard]] inline double cpu_s_of_transfer(const ScheduleCosts& costs, double bytes,
                                              double rows) noexcept {
  return costs.cpu_s_per_transfer + costs.cpu_s_per_row * rows + costs.cpu_s_per_byte * bytes;
}

}  // namespace gantry
