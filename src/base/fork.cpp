#include "base/fork.hpp"

#include <pthread.h>

namespace gantry {

std::atomic<unsigned> detail::fork_count{0};

unsigned detail::watch_forks() noexcept {
  // In the child, which has one thread yet. Out of memory here would mean no protection of forked
  // copies, and nothing else.
  static const int watching = ::pthread_atfork(
      nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(watching);
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace gantry
