#include "memory/numa.hpp"

#include <hwloc.h>
#include <sched.h>

#include <memory>

#include "base/result.hpp"

namespace gantry {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

// Read once: some milliseconds, for those alone who ask for a node.
hwloc_topology* topology() {
  static const Topology read = [] {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return Topology();
    Topology owner(made);
    return hwloc_topology_load(made) == 0 ? std::move(owner) : Topology();
  }();
  return read.get();
}

hwloc_obj_t node_object(int node) {
  if (topology() == nullptr || node < 0) return nullptr;
  return hwloc_get_obj_by_type(topology(), HWLOC_OBJ_NUMANODE, static_cast<unsigned>(node));
}

}  // namespace

Result<void> bind_to_node(ByteSpan memory, int node) {
  const hwloc_obj* const object = node_object(node);
  if (object == nullptr)
    return fail(Code::unsupported, fmt::format("NUMA node {}: this machine has none", node),
                "gantry doctor lists the nodes");
  if (hwloc_set_area_membind(topology(), memory.data(), memory.size(), object->nodeset,
                             HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) == 0)
    return {};
  return fail(Code::unsupported,
              fmt::format("NUMA node {}: the kernel does not bind memory to it: {}", node,
                          std::generic_category().message(errno)));
}

std::vector<int> cpus_of_node(int node) {
  std::vector<int> cpus;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  const hwloc_obj* const object = node_object(node);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (object == nullptr || hwloc_bitmap_isset(object->cpuset, static_cast<unsigned>(cpu)) != 0)
      cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace gantry
