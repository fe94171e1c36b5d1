#pragma once  // tools/gantry/run/process/progress.hpp: how far a running pipeline is, in one line.

#include "run/process/plan.hpp"

namespace gantry::run {

/// Compares the counters of all links with those of the call before. The plan must outlive it.
class Progress {
 public:
  explicit Progress(const Plan& plan);

  /// "12 s: frames 240, batches 1; 1.2 GiB at 310 MB/s; slowest stage: batch". `elapsed` is since
  /// the start of the run. Only stages that are `living`, by their index, count as slow.
  [[nodiscard]] std::string line(std::chrono::nanoseconds elapsed, const std::vector<bool>& living);

 private:
  struct Snapshot {
    MetricsReport sender;
    MetricsReport receiver;
  };
  [[nodiscard]] std::vector<Snapshot> read() const;
  /// Its name; empty when none lives.
  [[nodiscard]] std::string slowest(const std::vector<Snapshot>& now, double interval_ns,
                                    const std::vector<bool>& living) const;
  [[nodiscard]] double load(std::size_t stage, const std::vector<Snapshot>& now,
                            double interval_ns) const;
  const Plan* plan_;
  std::vector<Snapshot> before_;
  std::chrono::nanoseconds before_at_{0};
};

}  // namespace gantry::run
