#include "runtime/worker_places.hpp"

#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "runtime/cpu_quota.hpp"

namespace gantry {
namespace {

struct Free {
  void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* set) const noexcept { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<hwloc_topology, Free>;
using CpuSet = std::unique_ptr<hwloc_bitmap_s, Free>;

Topology load_topology() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {};
  Topology topology(made);
  return hwloc_topology_load(made) == 0 ? std::move(topology) : Topology();
}

// Where this thread may run: what its threads inherit.
CpuSet usable_cpus(hwloc_topology_t topology) {
  CpuSet set(hwloc_bitmap_alloc());
  if (set != nullptr && hwloc_get_cpubind(topology, set.get(), HWLOC_CPUBIND_THREAD) != 0)
    hwloc_bitmap_copy(set.get(), hwloc_topology_get_allowed_cpuset(topology));
  return set;
}

// Takes a node's CPUs out of `left`: nodes of different memory may share theirs.
std::vector<int> take_cpus(hwloc_obj_t node, hwloc_bitmap_t left) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_next(left, -1); cpu >= 0; cpu = hwloc_bitmap_next(left, cpu))
    if (hwloc_bitmap_isset(node->cpuset, static_cast<unsigned>(cpu)) != 0) cpus.push_back(cpu);
  for (const int cpu : cpus) hwloc_bitmap_clr(left, static_cast<unsigned>(cpu));
  return cpus;
}

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::vector<std::size_t> workers_by_node(const std::vector<NodeCpus>& nodes, double cpu_quota) {
  std::vector<std::size_t> counts;
  for (const NodeCpus& node : nodes)
    counts.push_back(std::min(std::max<std::size_t>(node.cpus.size(), 1) - 1, kMostWorkersOfNode));
  std::size_t most = kMaxWorkers;
  if (cpu_quota > 0)
    most = std::min(most, static_cast<std::size_t>(std::max(2.0, std::min(cpu_quota, 1e6))) - 1);
  while (sum(counts) > most) --*std::ranges::max_element(counts);
  if (sum(counts) == 0) counts.front() = 1;
  return counts;
}

}  // namespace

std::vector<NodeCpus> usable_nodes() {
  const Topology topology = load_topology();
  if (topology == nullptr) return {};
  const CpuSet left = usable_cpus(topology.get());
  if (left == nullptr || hwloc_bitmap_weight(left.get()) < 0) return {};
  std::vector<NodeCpus> nodes;
  for (hwloc_obj_t node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, nullptr);
       node != nullptr; node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node))
    if (auto cpus = take_cpus(node, left.get()); !cpus.empty())
      nodes.push_back({static_cast<int>(node->os_index), std::move(cpus)});
  return nodes;
}

std::vector<WorkerPlace> worker_places(const std::vector<NodeCpus>& nodes, double cpu_quota) {
  if (nodes.empty()) return {WorkerPlace{}};
  const auto counts = workers_by_node(nodes, cpu_quota);
  std::vector<WorkerPlace> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // With one node there is nowhere to stray: the process may change its CPUs later.
    const WorkerPlace place{nodes[i].node, nodes.size() > 1 ? nodes[i].cpus : std::vector<int>{}};
    places.insert(places.end(), counts[i], place);
  }
  return places;
}

std::vector<WorkerPlace> worker_places() {
  return worker_places(usable_nodes(), cpu_quota());
}

}  // namespace gantry
