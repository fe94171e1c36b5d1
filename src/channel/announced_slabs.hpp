#pragma once  // channel/announced_slabs.hpp: which slabs the consumer knows; the producer's side.

#include <functional>
#include <gantry/memory.hpp>
#include <mutex>
#include <set>

#include "base/result.hpp"

namespace gantry {

/// A consumer must have a slab's descriptor before it sees a message in it. Threads: announce()
/// the producer's caller, introduce() the doorman.
class AnnouncedSlabs {
 public:
  explicit AnnouncedSlabs(const Pool& pool) noexcept : pool_(pool) {}

  /// Sends a joining consumer every slab announced so far, calls `attach`, and only then sends
  /// `ready`: who has that misses nothing, though the producer be killed at this point. After an
  /// error before `attach` the consumer is as if it had never come.
  [[nodiscard]] Result<void> introduce(int socket, const std::function<void()>& attach);

  /// Sends `slab` before the first message in it, and which slabs are gone since.
  [[nodiscard]] Result<void> announce(std::uint32_t slab);

 private:
  [[nodiscard]] Result<void> send_slab(int socket, std::uint32_t slab) const;
  [[nodiscard]] Result<void> drop_the_gone();

  const Pool& pool_;
  std::mutex mutex_;
  int socket_ = -1;                    // of the consumer, once introduced
  std::set<std::uint32_t> announced_;  // written by announce() only: that may read it unlocked
};

}  // namespace gantry
