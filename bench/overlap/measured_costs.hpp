#pragma once  // bench/overlap/measured_costs.hpp: what the ranks' machine costs, for predictions.

#include "rank_process.hpp"

namespace gantry::bench {

/// Appends the work that the two functions below have done; returns where it begins.
[[nodiscard]] std::size_t add_cost_work(const OverlapOperator& op, std::vector<Work>& work);

/// Products of pieces of the operator's, each alone, fitted.
[[nodiscard]] Result<ScheduleCosts> measure_product_costs(const OverlapOperator& op, Ranks& ranks,
                                                          std::span<const Work> work,
                                                          std::size_t first);
/// Puts of two sizes, at the rate that the links have now.
[[nodiscard]] Result<void> measure_link_costs(Ranks& ranks, std::size_t first, double rate,
                                              ScheduleCosts& costs);

}  // namespace gantry::bench
