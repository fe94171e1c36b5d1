#pragma once  // sync/brief_mutex.hpp: a mutex with a short way for the one thread that takes it
              // most.

#include <atomic>
#include <mutex>

#include "core/sync/biased_lock.hpp"

namespace gantry {

// An uncontended std::mutex takes two atomic read-modify-writes, which are most of what a small
// move costs; the short way takes none. Thread that came first has it, until another one comes:
// from then on all take the long way.
//   I1  Who took the long way holds long_, and has the biased lock stolen for as long as somebody
//       else may have the short way.
//   I2  owner_ changes only under long_, with the owner outside: from nobody to a thread, and from
//       a thread to kShared.

class BriefMutex {
 public:
  /// The short way. False: take the long one. Whoever takes that waits meanwhile, try_lock() too.
  [[nodiscard]] bool try_lock_briefly() noexcept {
    // Relaxed: what is not this thread's own mark is somebody else's, whichever it is.
    return owner_.load(std::memory_order_relaxed) == mine() && short_.enter();
  }
  void unlock_briefly() noexcept { short_.leave(); }

  void lock() {
    long_.lock();
    exclude_owner();
  }
  [[nodiscard]] bool try_lock() {
    if (!long_.try_lock()) return false;
    exclude_owner();
    return true;
  }
  void unlock() noexcept { long_.unlock(); }

 private:
  void exclude_owner() noexcept {
    const char* const owner = owner_.load(std::memory_order_relaxed);  // I2
    if (owner == mine() || owner == &kShared) return;
    if (owner != nullptr) short_.steal();  // for good: I1
    owner_.store(owner == nullptr ? mine() : &kShared, std::memory_order_relaxed);
  }
  /// An address that no other living thread has.
  [[nodiscard]] static const char* mine() noexcept { return &mark; }

  [[gnu::tls_model("initial-exec"),
    gnu::visibility("default")]] static inline thread_local char mark =
      0;  // one for all components
  static constexpr char kShared = 0;
  std::atomic<const char*> owner_{nullptr};
  BiasedLock short_;
  std::mutex long_;
};

}  // namespace gantry
