#pragma once  // engine/thread/node_groups.hpp: workers by NUMA node, and which group is near a
              // move.

#include <gantry/engine.hpp>
#include <span>
#include <vector>

#include "engine/thread/thread_engine.hpp"

namespace gantry {

/// Groups are counted from 0, in the order in which their nodes first appear. A plain value.
class NodeGroups {
 public:
  /// The kernel's number of the node that holds the page at `address`; negative: unknown.
  using NodeOf = int (*)(const void* address) noexcept;
  static int node_of_page(const void* address) noexcept;

  explicit NodeGroups(std::span<const WorkerPlace> places, NodeOf node_of = node_of_page);

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(nodes_.size()); }
  /// 0 for a node without workers.
  [[nodiscard]] unsigned of_node(int node) const noexcept;
  /// The group for a move: by the node of its destination's first page, or of its source's if it
  /// writes nothing. The kernel is asked only for large moves, and only where there is a choice;
  /// small ones go to the node that their submitter runs on.
  [[nodiscard]] unsigned near(const Move& move) const noexcept;

  static constexpr Bytes kAskedFrom = Bytes{4} << 20;  // some microseconds in a millisecond

 private:
  std::vector<int> nodes_;
  NodeOf node_of_;
};

}  // namespace gantry
