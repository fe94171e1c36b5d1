#pragma once  // tools/gantry/run/file/graph.hpp: the stages and channels as a graph.

#include <span>

#include "run/file/pipeline.hpp"

namespace gantry::run {

/// The stages from `from` to `to` along channels, both included; empty if there is no way.
[[nodiscard]] std::vector<std::size_t> find_path(std::span<const Channel> channels,
                                                 std::size_t from, std::size_t to);

/// Of each of `stages` stages the most channels that lead to it, one behind the other: 0 for a
/// source. The channels make no cycle.
[[nodiscard]] std::vector<std::size_t> depths(std::span<const Channel> channels,
                                              std::size_t stages);

}  // namespace gantry::run
