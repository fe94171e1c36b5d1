#include "run/file/graph.hpp"

#include <algorithm>

namespace gantry::run {

std::vector<std::size_t> find_path(std::span<const Channel> channels, std::size_t from,
                                   std::size_t to) {
  // Breadth first, remembering whence each stage was reached.
  std::vector<std::size_t> reached{from};
  std::vector<std::size_t> whence{0};
  for (std::size_t next = 0; next < reached.size() && reached.back() != to; ++next) {
    for (const Channel& channel : channels) {
      if (channel.from != reached[next] || std::ranges::count(reached, channel.to) != 0) continue;
      reached.push_back(channel.to);
      whence.push_back(next);
      if (channel.to == to) break;
    }
  }
  if (reached.back() != to) return {};
  std::vector<std::size_t> path;
  for (std::size_t at = reached.size() - 1; at != 0; at = whence[at]) path.push_back(reached[at]);
  path.push_back(from);
  std::ranges::reverse(path);
  return path;
}

std::vector<std::size_t> depths(std::span<const Channel> channels, std::size_t stages) {
  std::vector<std::size_t> depth(stages, 0);
  for (std::size_t pass = 0; pass < stages; ++pass)
    for (const Channel& channel : channels)
      depth[channel.to] = std::max(depth[channel.to], depth[channel.from] + 1);
  return depth;
}

}  // namespace gantry::run
