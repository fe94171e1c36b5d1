#pragma once  // base/os/numa_nodes.hpp: the machine's NUMA nodes and the CPUs of this thread.

#include <span>
#include <string_view>
#include <vector>

namespace gantry {

/// A NUMA node, by the kernel's number, and its CPUs.
struct NodeCpus {
  int node = 0;
  std::vector<int> cpus;
};

/// All nodes, by number. Reads /sys, since hwloc ends the process if memory runs out while it
/// looks. Empty when the kernel does not tell. Throws only std::bad_alloc.
[[nodiscard]] std::vector<NodeCpus> numa_nodes();

/// The CPUs that this thread, and threads that it starts, may use. Empty when unknown.
[[nodiscard]] std::vector<int> allowed_cpus();

/// The number of those; all of the machine's if unknown, at least 1.
[[nodiscard]] unsigned usable_cpus() noexcept;

/// A wish: without any of these CPUs (a control group forbids them, the process lost them) or
/// without memory the thread stays where it may run.
void bind_this_thread(std::span<const int> cpus) noexcept;

/// The numbers in a list as the kernel writes it: "0-3,8". Stops at anything else.
[[nodiscard]] std::vector<int> numbers_in(std::string_view list);

}  // namespace gantry
