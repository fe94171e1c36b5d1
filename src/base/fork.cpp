#include "base/fork.hpp"

#include <pthread.h>

namespace gantry {

std::atomic<unsigned> detail::fork_count{0};

unsigned detail::watch_forks() noexcept {
  // Runs in the child, which has only one thread yet. Running out of memory here means only that
  // forked copies are not protected.
  static const int watching = ::pthread_atfork(
      nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(watching);
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace gantry
