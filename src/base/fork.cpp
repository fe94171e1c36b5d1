#include "base/fork.hpp"

#include <pthread.h>

// What a process finds out once, in a way that a thread of ours may be the first to need, is found
// out when the library is loaded, not by a `static` within a function: a fork() while that thread
// is in there copies the guard of the variable, and the child would wait for it for ever.

namespace gantry {

std::atomic<unsigned> detail::fork_count{0};

namespace {

// Runs in the child, which has only one thread yet. Running out of memory here means only that
// forked copies are not protected.
[[maybe_unused]] const int kWatching = ::pthread_atfork(
    nullptr, nullptr, [] { detail::fork_count.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

unsigned detail::watch_forks() noexcept {
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace gantry
