#pragma once  // base/test_fork.hpp: for tests that fork(), and whether they may beside other
              // threads.

#include <sys/wait.h>
#include <unistd.h>

#include "core/base/test_sanitizer.hpp"

namespace gantry {

/// Null, or why not. A thread that allocates, starts or ends at the fork holds locks of the
/// sanitizer's run-time, and the child gets them locked. It then waits for ever in its first
/// malloc(), free() or thread. Threads that are asleep at the fork do no harm.
[[nodiscard]] inline const char* no_busy_fork() noexcept {
  if (has_thread_sanitizer()) return "ThreadSanitizer does not follow a fork of several threads";
  if (has_address_sanitizer())
    return "AddressSanitizer's allocator may be locked for ever after a fork of several threads";
  return nullptr;
}

/// Runs `work` in a fork()ed child and returns its exit status; -1: a signal ended it.
template <class Work>
int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace gantry
