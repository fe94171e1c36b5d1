#pragma once  // tools/gantry/run/file/graph.hpp: the stages and channels as a graph.

#include <span>

#include "run/file/pipeline.hpp"

namespace gantry::run {

/// The stages from `from` to `to` along channels, both included; empty if there is no way.
[[nodiscard]] std::vector<std::size_t> find_path(std::span<const Channel> channels,
                                                 std::size_t from, std::size_t to);

}  // namespace gantry::run
