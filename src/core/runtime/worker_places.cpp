#include "core/runtime/worker_places.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/runtime/cpu_quota.hpp"

namespace gantry {
namespace {

// Takes a node's CPUs out of `left`: nodes of different memory may share theirs.
std::vector<int> take_cpus(const NodeCpus& node, std::vector<int>& left) {
  const auto is_of_node = [&](int cpu) { return std::ranges::count(node.cpus, cpu) != 0; };
  std::vector<int> cpus;
  std::ranges::copy_if(left, std::back_inserter(cpus), is_of_node);
  std::erase_if(left, is_of_node);
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
  std::vector<int> left = allowed_cpus();
  std::vector<NodeCpus> nodes;
  for (const NodeCpus& node : numa_nodes())
    if (auto cpus = take_cpus(node, left); !cpus.empty())
      nodes.push_back({node.node, std::move(cpus)});
  // If the kernel reports no nodes, all CPUs are one node.
  if (nodes.empty() && !left.empty()) nodes.push_back({0, std::move(left)});
  return nodes;
}

std::vector<WorkerPlace> worker_places(const std::vector<NodeCpus>& nodes, double cpu_quota) {
  if (nodes.empty()) return {WorkerPlace{}};
  const auto counts = workers_by_node(nodes, cpu_quota);
  std::vector<WorkerPlace> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // With one node there is nowhere to stray to, and the process may change its CPUs later.
    const WorkerPlace place{nodes[i].node, nodes.size() > 1 ? nodes[i].cpus : std::vector<int>{}};
    places.insert(places.end(), counts[i], place);
  }
  return places;
}

std::vector<WorkerPlace> worker_places() {
  return worker_places(usable_nodes(), cpu_quota());
}

}  // namespace gantry
