#pragma once  // engine/policy/watcher.hpp: ends moves of lanes that somebody watches from outside.

#include <gantry/types.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "base/fd.hpp"
#include "base/fork.hpp"

namespace gantry {

/// Called when a descriptor rings; look() must not call the watcher.
class Watched {
 public:
  Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  virtual void look() noexcept = 0;

 protected:
  ~Watched() = default;
};

/// One thread, made when the first descriptor is added; it sleeps until one rings.
class EngineWatcher {
 public:
  EngineWatcher() = default;
  EngineWatcher(const EngineWatcher&) = delete;
  EngineWatcher& operator=(const EngineWatcher&) = delete;
  ~EngineWatcher();

  /// From now on a ring of `event` (an eventfd) calls `target`. Adding twice has no further effect.
  /// Do not call it with a lock held that look() takes. Errors: `system`.
  [[nodiscard]] Result<void> add(int event, Watched& target);
  /// When it returns, `target` is not being called and never will be.
  void remove(Watched& target) noexcept;

 private:
  [[nodiscard]] Result<void> start();
  void work() noexcept;
  bool ring_of(int event) noexcept;

  const ForkGuard fork_guard_;  // a forked child shares the descriptors, not the thread
  std::mutex mutex_;            // held while a target is called, so remove() waits for that
  std::map<int, Watched*> targets_;
  Fd epoll_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace gantry
