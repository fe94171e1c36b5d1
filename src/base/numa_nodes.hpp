#pragma once  // base/numa_nodes.hpp: the machine's NUMA nodes and the CPUs of this thread.

#include <string_view>
#include <vector>

namespace gantry {

/// A NUMA node, by the kernel's number, and its CPUs.
struct NodeCpus {
  int node = 0;
  std::vector<int> cpus;
};

/// All nodes, by number. Read from /sys, since hwloc ends the process where memory runs out while
/// it looks. Empty when the kernel does not tell. Throws nothing but std::bad_alloc.
[[nodiscard]] std::vector<NodeCpus> numa_nodes();

/// The CPUs that this thread may use, and the threads that it starts. Empty when unknown.
[[nodiscard]] std::vector<int> allowed_cpus();

/// How many those are; at least 1, and all of the machine's where they are more than 1024.
[[nodiscard]] unsigned usable_cpus() noexcept;

/// The numbers in a list as the kernel writes it: "0-3,8". What is not such a list ends it.
[[nodiscard]] std::vector<int> numbers_in(std::string_view list);

}  // namespace gantry
