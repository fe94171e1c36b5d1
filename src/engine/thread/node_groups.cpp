#include "engine/thread/node_groups.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace gantry {

NodeGroups::NodeGroups(std::span<const WorkerPlace> places, NodeOf node_of) : node_of_(node_of) {
  for (const WorkerPlace& place : places)
    if (std::ranges::find(nodes_, place.node) == nodes_.end()) nodes_.push_back(place.node);
}

int NodeGroups::node_of_page(const void* address) noexcept {
  int node = -1;
  const long answer =
      ::syscall(SYS_get_mempolicy, &node, nullptr, 0, address, MPOL_F_NODE | MPOL_F_ADDR);
  return answer == 0 ? node : -1;
}

unsigned NodeGroups::of_node(int node) const noexcept {
  const auto found = std::ranges::find(nodes_, node);
  return found == nodes_.end() ? 0 : static_cast<unsigned>(found - nodes_.begin());
}

unsigned NodeGroups::near(const Move& move) const noexcept {
  if (nodes_.size() == 1) return 0;
  if (move.bytes >= kAskedFrom) return of_node(node_of_(move.destination));
  unsigned cpu = 0, node = 0;
  return ::getcpu(&cpu, &node) == 0 ? of_node(static_cast<int>(node)) : 0;
}

}  // namespace gantry
