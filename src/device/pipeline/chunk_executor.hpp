#pragma once  // pipeline/chunk_executor.hpp: sends chunks through the three queues of a device.

#include <condition_variable>
#include <mutex>

#include "core/base/assert.hpp"
#include "device/pipeline/chunk_ring.hpp"
#include "device/pipeline/device_run.hpp"
#include "device/pipeline/file_ends.hpp"
#include "device/pipeline/staging.hpp"

namespace gantry {

/// The chunk that failed, the error, and how far the chunk had come.
struct ChunkFailure {
  /// `ends`: the caller's sources, sinks and folds.
  enum class Stage : std::uint8_t { host, ends, copy_in, compute, copy_out };
  Error error;
  Chunk chunk;
  Stage stage = Stage::host;
};

/// A run in progress. begin() has the files of a chunk read. submit() waits for these, reads the
/// rest of its input and submits its operations. complete() waits for their end and handles the
/// results, except files that are written: commit() waits for those. The first two and the last two
/// may be called by two threads at once, for different slots; each by one thread at a time, with
/// chunks in order. With several chunks in flight one thread submits and the caller completes. A
/// slot goes from one to the other and back under mutex_:
///   I1  completed_ <= submitted_ <= completed_ + depth.
///   I2  The submitter writes slot i when submitted_ == i and i < completed_ + depth; the completer
///       reads it when completed_ <= i < submitted_. All that while it is chunk i's.
///   I3  Chunks lie one behind the other, and none is empty or larger than the ring's.
///   I4  The chunk that could not be submitted is the first unsubmitted one.
///   I5  Chunks are committed in their order, each once: the next is the first that is not
///   completed. I6  A timeline that is kept has an entry for each chunk that was committed.
class ChunkExecutor {
 public:
  using Failure = std::optional<ChunkFailure>;

  ChunkExecutor(Device& device, const PipelineJob& job, const PipelineOptions& options,
                Kernel kernel, std::span<const RunArray> arrays, const ChunkCut& cut,
                std::uint64_t first_step)
      : device_(device),
        job_(job),
        options_(options),
        kernel_(std::move(kernel)),
        arrays_(arrays),
        cut_(cut),
        next_{0, first_step, 0} {}

  /// Errors: those of opening queues and lanes.
  [[nodiscard]] Result<void> open(bool is_one_queue, FileLanes files);

  /// Runs the next `steps` steps in chunks of the ring's size; one at a time.
  [[nodiscard]] Failure run_one_by_one(ChunkRing& ring, std::uint64_t steps);
  /// The same with as many in flight as the ring has slots.
  [[nodiscard]] Failure run_overlapped(ChunkRing& ring, std::uint64_t steps);
  /// After a failure: cancels what is pending and waits for its end, or gives the device up.
  void halt() noexcept;

  [[nodiscard]] std::uint64_t steps_done() const noexcept { return next_.first; }
  [[nodiscard]] std::uint64_t chunks_done() const noexcept { return next_.index; }
  [[nodiscard]] const ChunkTimes& last_times() const noexcept { return times_; }
  [[nodiscard]] DeviceQueue& copy_in_queue() noexcept { return *queues_.copy_in; }
  /// Adds its counts.
  void report(PipelineReport& report) const;

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. While two threads run, under mutex_; for a run
  /// with several chunks in flight. Checks I1 to I4; I5 and I6 are the completer's.
  void check_invariants(const ChunkRing& ring) const noexcept;

 private:
  friend struct InvariantBreaker<ChunkExecutor>;

  [[nodiscard]] Chunk chunk_at(Chunk next, const ChunkRing& ring, std::uint64_t end) const noexcept;

  void begin(const ChunkRing& ring, ChunkSlot& slot) noexcept;
  [[nodiscard]] Result<void> begin_reads(const ChunkRing& ring, ChunkSlot& slot);
  [[nodiscard]] Failure submit(ChunkRing& ring, ChunkSlot& slot);
  [[nodiscard]] Result<void> place(ChunkSlot& slot);
  [[nodiscard]] Result<void> stage_in(ChunkSlot& slot);
  [[nodiscard]] Result<void> submit_in(const ChunkRing& ring, ChunkSlot& slot);
  [[nodiscard]] Result<void> submit_in_direct(ChunkSlot& slot, std::size_t index);
  [[nodiscard]] Result<void> submit_compute(ChunkSlot& slot);
  [[nodiscard]] Result<void> submit_shared_out(ChunkSlot& slot);
  [[nodiscard]] Result<void> submit_out(const ChunkRing& ring, ChunkSlot& slot);

  [[nodiscard]] Failure complete(const ChunkRing& ring, ChunkSlot& slot);
  [[nodiscard]] Result<void> complete_results(const ChunkRing& ring, ChunkSlot& slot);
  [[nodiscard]] Result<void> complete_result(const ChunkRing& ring, ChunkSlot& slot,
                                             std::size_t index);
  [[nodiscard]] Failure commit(ChunkSlot& slot);
  void count(const ChunkSlot& slot);

  void submit_all(ChunkRing& ring, std::uint64_t end) noexcept;
  [[nodiscard]] Failure complete_all(ChunkRing& ring, std::uint64_t end);
  [[nodiscard]] Failure complete_next(ChunkRing& ring, Chunk& next, std::uint64_t end);
  [[nodiscard]] Failure commit_first(ChunkRing& ring);
  [[nodiscard]] bool is_commit_due(ChunkRing& ring, std::uint64_t next) const;
  [[nodiscard]] Failure wait_submitted(const Chunk& chunk);

  Device& device_;
  const PipelineJob& job_;
  const PipelineOptions& options_;
  const Kernel kernel_;
  const std::span<const RunArray> arrays_;
  const ChunkCut cut_;
  RunQueues queues_;
  HostCopier submit_copier_;
  HostCopier complete_copier_;
  FileLanes files_;

  Chunk next_;  // the completer's: the chunk to commit next, except its steps
  ChunkTimes times_;
  std::chrono::nanoseconds busy_in_{}, busy_compute_{}, busy_out_{};
  Bytes bytes_out_ = 0;
  Bytes bytes_in_ = 0;                         // the submitter's
  Deadline::Clock::time_point read_until_;     // the submitter's: when chunks before had been read
  Deadline::Clock::time_point written_until_;  // the completer's: when they had been written
  std::vector<ChunkTimes> timeline_;

  // Shared by the two threads of run_overlapped().
  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t submitted_ = 0;  // chunks whose operations are submitted
  std::uint64_t completed_ = 0;  // chunks whose slots are free again
  bool stop_ = false;
  bool all_submitted_ = false;  // the submitter has ended
  Failure submit_failure_;
};

}  // namespace gantry
