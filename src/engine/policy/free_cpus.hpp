#pragma once  // engine/policy/free_cpus.hpp: whether a worker would find a free CPU.

#include <atomic>
#include <cstdint>
#include <string>

namespace gantry {

/// Counts the CPUs of this process on which nobody runs besides the caller, as lately seen. The
/// kernel is asked at most every 2 ms, which takes some microseconds. Any thread.
class FreeCpus {
 public:
  /// `cpus` 0: by the affinity of the calling thread.
  explicit FreeCpus(double cpus, std::string source = "/proc/loadavg");

  /// `own_workers`: threads that run for us now, or have just done so and look for more. They count
  /// as free if this call asks the kernel.
  [[nodiscard]] double besides_caller(unsigned own_workers) noexcept;
  [[nodiscard]] double cpus() const noexcept { return cpus_; }

  static constexpr std::uint64_t kForgottenNs = 10'000'000;
  static constexpr std::uint64_t kSampleNs = 2'000'000;

 private:
  void sample(std::uint64_t now_ns, unsigned own_workers) noexcept;

  double cpus_;
  std::string source_;
  // All relaxed: a guess, as good as its age.
  std::atomic<std::uint64_t> sampled_ns_{0};
  std::atomic<double> others_{-1};  // others that run, smoothed; negative: never seen
};

}  // namespace gantry
