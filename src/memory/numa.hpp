#pragma once  // memory/numa.hpp: which memory and which cores belong together.

#include <gantry/types.hpp>
#include <vector>

namespace gantry {

/// Binds pages of `memory` that are made from now on to `node` (the kernel's number). Errors:
/// `unsupported` when there is no such node, or the kernel does not bind.
[[nodiscard]] Result<void> bind_to_node(ByteSpan memory, int node);

/// The CPUs of `node` that this process may use; of all nodes for -1. Empty when unknown.
[[nodiscard]] std::vector<int> cpus_of_node(int node);

}  // namespace gantry
