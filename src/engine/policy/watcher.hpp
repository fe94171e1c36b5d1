#pragma once  // engine/policy/watcher.hpp: ends moves of lanes that somebody watches from outside.

#include <map>
#include <mutex>
#include <thread>

#include <gantry/types.hpp>

#include "base/fd.hpp"
#include "base/fork.hpp"

namespace gantry {

/// What is called when a descriptor rings.
class Watched {
 public:
  Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  virtual void look() noexcept = 0;

 protected:
  ~Watched() = default;
};

/// One thread, made when the first descriptor is added, asleep until one rings.
class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher();

  /// From now on what rings `event` (an eventfd) makes `target` look. Twice is as once. Not to be
  /// called with a lock held that look() takes. Errors: `system`.
  [[nodiscard]] Result<void> add(int event, Watched& target);
  /// When it returns, nobody looks there any more, and never will.
  void remove(Watched& target) noexcept;

 private:
  [[nodiscard]] Result<void> start();
  void work() noexcept;
  bool ring_of(int event) noexcept;

  const ForkGuard fork_guard_;  // descriptors are shared with a forked child, the thread is not
  // Held while somebody looks: remove() waits for it. Who looks may add.
  std::recursive_mutex mutex_;
  std::map<int, Watched*> targets_;
  Fd epoll_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace gantry
