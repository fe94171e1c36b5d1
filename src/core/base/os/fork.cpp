#include "core/base/os/fork.hpp"

#include <pthread.h>

// What a process finds out once, in a `static` of a function that a thread of ours may be the first
// to call, is asked for when the library is loaded (constants called k...AtLoad). A fork() while a
// thread is in there would copy the guard of the variable half-way, and the child wait for it for
// ever.

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

namespace {
[[maybe_unused]] const unsigned kForksAtLoad = detail::watch_forks();
}  // namespace

}  // namespace gantry
