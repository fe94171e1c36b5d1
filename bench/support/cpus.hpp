#pragma once  // bench/support/cpus.hpp: where the two ends of a pair run, and what they burn.

#include <chrono>
#include <gantry/types.hpp>

namespace gantry::bench {

struct CpuPair {
  int requester = 0;
  int responder = 0;
  [[nodiscard]] bool shared() const noexcept { return requester == responder; }
};

/// Two CPUs this process may use: of different cores, and of the same package if there are such.
/// Twice the same one when only one is allowed.
[[nodiscard]] Result<CpuPair> pick_cpus();

/// Binds the calling thread to one CPU; threads it makes later inherit that.
[[nodiscard]] Result<void> pin(int cpu);

/// CPU time of this process, all threads.
[[nodiscard]] std::chrono::nanoseconds process_cpu_time() noexcept;
/// CPU time of the calling thread.
[[nodiscard]] std::chrono::nanoseconds thread_cpu_time() noexcept;

}  // namespace gantry::bench
