#pragma once  // bench/pipeline/turns.hpp: one subject's run of a job, and what it gave.

#include "../support/report/series.hpp"
#include "cases.hpp"
#include "environment.hpp"

namespace gantry::bench {

// Metrics of this benchmark, beside those of all. Of pinned subjects latency and throughput are
// without the page-locking of their memory.
inline constexpr std::string_view kAcquisition = "acquisition";  ///< Page-locking and its undoing.
inline constexpr std::string_view kWithAcquisition = "latency_with_acquisition";
inline constexpr std::string_view kSetup = "setup";
inline constexpr std::string_view kCopyIn = "copy_in_time";
inline constexpr std::string_view kCompute = "compute_time";
inline constexpr std::string_view kCopyOut = "copy_out_time";
inline constexpr std::string_view kEfficiency = "overlap_efficiency";
inline constexpr std::string_view kCopyShare = "copy_share";  ///< Of the time.
inline constexpr std::string_view kChunks = "chunks";
inline constexpr std::string_view kChunkBytes = "chunk_bytes";
inline constexpr std::string_view kDepth = "depth";
inline constexpr std::string_view kDeviceBytes = "device_bytes";
inline constexpr std::string_view kRingBytes = "ring_bytes";

/// Who takes turns.
struct JobSubject {
  std::string name;  ///< "opencl/automatic", "cuda/automatic/4 MiB x 3".
  const Tool* tool = nullptr;
  PipelineOptions options;
  bool is_blocking = false;  ///< Terms::is_blocking
};

/// One case at one size, on all devices that can build its kernel.
class BenchCase {
 public:
  BenchCase(const CaseKind& kind, Bytes bytes);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }
  [[nodiscard]] const CaseKind& kind() const noexcept { return kind_; }

  /// Errors: as Device::build().
  Result<void> build_for(const Tool& tool);

  struct Turn {
    PipelineReport report;
    std::chrono::nanoseconds acquisition{};
    Spent spent;
  };
  /// One run, its results checked. Errors: `peer_misbehaved` for a wrong result; those of the run.
  [[nodiscard]] Result<Turn> take_turn(const JobSubject& subject);
  void add(const JobSubject& subject, const Turn& turn, Series& series) const;

 private:
  const CaseKind& kind_;
  Bytes bytes_;
  std::string name_;
  std::unique_ptr<Workload> workload_;
  std::vector<std::pair<const Tool*, Kernel>> kernels_;
};

/// "4 MiB x 3, ring": chunks, how many are under way, staging.
[[nodiscard]] std::string choice_text(const PipelinePlan& plan, Bytes step_bytes);

}  // namespace gantry::bench
