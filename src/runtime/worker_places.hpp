#pragma once  // runtime/worker_places.hpp: how many copy workers to make, and where.

#include <vector>

#include "base/numa_nodes.hpp"
#include "engine/thread/thread_engine.hpp"

namespace gantry {

/// Nodes with at least one usable CPU, each CPU at one of them. Empty when the machine does not
/// tell.
[[nodiscard]] std::vector<NodeCpus> usable_nodes();

inline constexpr std::size_t kMostWorkersOfNode = 4;  // by then a node's memory is the limit

/// On each node one fewer than its CPUs, since whoever submits has work of its own; at most
/// kMostWorkersOfNode; one in all at the least. `cpu_quota` (see cpu_quota.hpp; 0: none) leaves one
/// of its CPUs to the submitters too: time that workers use up is missing there later.
[[nodiscard]] std::vector<WorkerPlace> worker_places(const std::vector<NodeCpus>& nodes,
                                                     double cpu_quota);
/// Of this machine and process.
[[nodiscard]] std::vector<WorkerPlace> worker_places();

}  // namespace gantry
