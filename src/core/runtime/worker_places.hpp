#pragma once  // runtime/worker_places.hpp: how many copy workers to make, and where.

#include <vector>

#include "core/base/os/numa_nodes.hpp"
#include "core/engine/thread/thread_engine.hpp"

namespace gantry {

/// Nodes with at least one usable CPU; each CPU belongs to one of them. Empty if the machine does
/// not tell.
[[nodiscard]] std::vector<NodeCpus> usable_nodes();

// more would not help: a node's memory is the limit by then
inline constexpr std::size_t kMostWorkersOfNode = 4;

/// On each node one fewer than its CPUs, since submitters have work of their own; at most
/// kMostWorkersOfNode; at least one in all. `cpu_quota` (see cpu_quota.hpp; 0: none) also leaves
/// one of its CPUs to the submitters, who would later miss the time that workers use up.
[[nodiscard]] std::vector<WorkerPlace> worker_places(const std::vector<NodeCpus>& nodes,
                                                     double cpu_quota);
/// The places on this machine, for this process.
[[nodiscard]] std::vector<WorkerPlace> worker_places();

}  // namespace gantry
