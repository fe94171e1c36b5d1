#pragma once  // base/worker_thread.hpp: the library's own threads.

#include <pthread.h>
#include <sched.h>

#include <system_error>
#include <thread>
#include <vector>

#include "base/result.hpp"

namespace gantry {

/// A wish: the kernel ignores CPUs that do not exist, or that a control group forbids.
inline void bind_this_thread(const std::vector<int>& cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(cpu), &set);
  if (CPU_COUNT(&set) != 0) ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

/// `what`: for the error: "starting a thread for files: ...". Errors: `system`, `out_of_memory`.
template <class Run>
[[nodiscard]] Result<std::thread> start_thread(std::string_view what, Run run) noexcept {
  return guarded([&]() -> Result<std::thread> {
    try {
      return std::thread(std::move(run));
    } catch (const std::system_error& error) {
      return fail(Code::system, fmt::format("starting {}: {}", what, error.what()),
                  "raise the limit of processes (ulimit -u)");
    }
  });
}

}  // namespace gantry
