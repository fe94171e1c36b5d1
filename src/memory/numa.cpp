#include "memory/numa.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/numa_nodes.hpp"
#include "base/result.hpp"

namespace gantry {
namespace {

// The cores of `node`; nothing when there is no such node.
const NodeCpus* find(const std::vector<NodeCpus>& nodes, int node) {
  const auto found = std::ranges::find(nodes, node, &NodeCpus::node);
  return found == nodes.end() ? nullptr : &*found;
}

long bind(ByteSpan memory, int node) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  const auto bit = static_cast<std::size_t>(node);
  std::vector<unsigned long> mask(bit / kBits + 1);
  mask[bit / kBits] = 1UL << bit % kBits;
  // The kernel looks at one bit fewer than it is told.
  return ::syscall(SYS_mbind, memory.data(), memory.size(), MPOL_BIND, mask.data(),
                   mask.size() * kBits + 1, 0);
}

}  // namespace

Result<void> bind_to_node(ByteSpan memory, int node) {
  if (find(numa_nodes(), node) == nullptr)
    return fail(Code::unsupported, fmt::format("NUMA node {}: this machine has none", node),
                "ls /sys/devices/system/node lists the nodes");
  if (bind(memory, node) == 0) return {};
  return fail(Code::unsupported,
              fmt::format("NUMA node {}: the kernel does not bind memory to it: {}", node,
                          std::generic_category().message(errno)));
}

std::vector<int> cpus_of_node(int node) {
  std::vector<int> cpus = allowed_cpus();
  if (node < 0) return cpus;
  const std::vector<NodeCpus> nodes = numa_nodes();
  const NodeCpus* const wanted = find(nodes, node);
  if (wanted == nullptr) return cpus;
  std::erase_if(cpus, [&](int cpu) { return std::ranges::count(wanted->cpus, cpu) == 0; });
  return cpus;
}

}  // namespace gantry
