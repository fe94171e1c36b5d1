#pragma once  // base/worker_thread.hpp: what the threads behind a producer have in common.

#include <pthread.h>
#include <sched.h>

#include <system_error>
#include <thread>
#include <vector>

#include "base/result.hpp"

namespace gantry {

/// A wish: CPUs that there are not, or that a control group forbids, are the kernel's to pass over.
inline void bind_this_thread(const std::vector<int>& cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(cpu), &set);
  if (CPU_COUNT(&set) != 0) ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

template <class Run>
[[nodiscard]] Result<std::thread> start_thread(Run run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    return fail(Code::system, fmt::format("starting a thread: {}", error.what()),
                "raise the limit of processes (ulimit -u)");
  }
}

/// In a fork's copy: the thread did not come along, and none can join it.
inline void disown(std::thread& thread) {
  new std::thread(std::move(thread));  // NOLINT: ~thread() of it would end the process
}

}  // namespace gantry
