#pragma once  // bench/support/system/cpus.hpp: where the two ends of a pair run, and what they
              // burn.

#include <chrono>
#include <gantry/types.hpp>
#include <span>
#include <vector>

namespace gantry::bench {

struct CpuPair {
  int requester = 0;
  int responder = 0;
  [[nodiscard]] bool shared() const noexcept { return requester == responder; }
};

/// Two CPUs this process may use: of different cores, and of the same package if there are such.
/// Twice the same one when only one is allowed.
[[nodiscard]] Result<CpuPair> pick_cpus();

/// Where responder number `reader` runs: the first where the pair says, further ones on further
/// CPUs, none of them on the requester's as long as there is another.
[[nodiscard]] int reader_cpu(const CpuPair& pair, int reader);

/// CPUs the calling thread may use.
[[nodiscard]] Result<std::vector<int>> allowed_cpus();
/// The same, those of `pair` leading; they alone if the others are unknown.
[[nodiscard]] std::vector<int> allowed_cpus(const CpuPair& pair);
/// Binds the calling thread to one CPU; threads it makes later inherit that.
[[nodiscard]] Result<void> pin(int cpu);
[[nodiscard]] Result<void> pin(std::span<const int> cpus);

/// CPU time of this process, all threads.
[[nodiscard]] std::chrono::nanoseconds process_cpu_time() noexcept;
/// The same of another process; 0 of one that is gone.
[[nodiscard]] std::chrono::nanoseconds process_cpu_time(int process) noexcept;
/// CPU time of the calling thread.
[[nodiscard]] std::chrono::nanoseconds thread_cpu_time() noexcept;

}  // namespace gantry::bench
