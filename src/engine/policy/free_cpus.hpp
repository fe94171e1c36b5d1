#pragma once  // engine/policy/free_cpus.hpp: whether a worker would find a CPU to run on.

#include <atomic>
#include <cstdint>
#include <string>

namespace gantry {

/// Of the CPUs that this process may use, those that nobody runs on besides the caller, as lately
/// seen: the kernel is asked at most every 2 ms (it takes some microseconds). Any thread.
class FreeCpus {
 public:
  /// `cpus` 0: by the affinity of the calling thread.
  explicit FreeCpus(double cpus, std::string source = "/proc/loadavg");

  /// `own_workers`: threads that run for us now, or have just done so and look for more: should the
  /// kernel be asked in this call, they count as free.
  [[nodiscard]] double besides_caller(unsigned own_workers) noexcept;
  [[nodiscard]] double cpus() const noexcept { return cpus_; }

  static constexpr std::uint64_t kForgottenNs = 10'000'000;
  static constexpr std::uint64_t kSampleNs = 2'000'000;

 private:
  void sample(std::uint64_t now_ns, unsigned own_workers) noexcept;

  double cpus_;
  std::string source_;
  // Relaxed, all: a guess, as good as its age.
  std::atomic<std::uint64_t> sampled_ns_{0};
  std::atomic<double> others_{-1};  // that run, smoothed; negative: never seen
};

}  // namespace gantry
