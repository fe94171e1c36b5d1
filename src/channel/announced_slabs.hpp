#pragma once  // channel/announced_slabs.hpp: which memory the consumers know; the producer's side.

#include <gantry/memory.hpp>
#include <map>
#include <memory>
#include <set>

#include "base/result.hpp"

namespace gantry {

/// A consumer must have a slab's descriptor before it sees a message in it. Slabs are the pool's
/// own, by its numbers, or another channel's whose messages are passed on. Under the channel's
/// lock.
class AnnouncedSlabs {
 public:
  explicit AnnouncedSlabs(const Pool& pool) noexcept : pool_(pool) {}

  /// Sends a joining consumer every slab announced so far.
  [[nodiscard]] Result<void> introduce(int socket) const;

  /// Sends `slab` before the first message in it, and which slabs are gone since. Returns the
  /// sockets that did not take it.
  [[nodiscard]] Result<std::vector<int>> announce(std::uint32_t slab, std::span<const int> sockets);

  /// The number of somebody else's slab, for as long as that lives.
  [[nodiscard]] std::uint32_t adopt(const std::shared_ptr<const Region>& region);

 private:
  static constexpr std::uint32_t kForeign = std::uint32_t{1} << 31;

  [[nodiscard]] std::shared_ptr<const Region> region_of(std::uint32_t slab) const;
  [[nodiscard]] bool tell(int socket, std::uint32_t slab) const;
  void drop_the_gone(std::span<const int> sockets);

  const Pool& pool_;
  std::set<std::uint32_t> announced_;
  std::map<std::uint32_t, std::weak_ptr<const Region>> foreign_;
  std::uint32_t next_foreign_ = kForeign;
};

}  // namespace gantry
