#pragma once  // base/test_fork.hpp: whether a test may fork() while other threads are at work.

namespace gantry {

/// Null, or why not. A thread that allocates, starts or ends at the fork holds locks of the
/// sanitizer's run-time, which copies them as they are: the child then waits for ever in its first
/// malloc(), free() or thread. Threads that are asleep at the fork do no harm.
[[nodiscard]] constexpr const char* no_busy_fork() noexcept {
#if defined(__SANITIZE_THREAD__)
  return "ThreadSanitizer does not follow a fork of several threads";
#elif defined(__SANITIZE_ADDRESS__)
  return "AddressSanitizer's allocator may be locked for ever after a fork of several threads";
#else
  return nullptr;
#endif
}

}  // namespace gantry
