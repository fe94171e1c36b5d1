#pragma once  // pipeline/pipeline_run.hpp: one run of a job, from its check to its report.

#include <memory>
#include <optional>
#include <span>

#include "pipeline/chunk_executor.hpp"
#include "pipeline/chunk_planner.hpp"
#include "pipeline/device_split.hpp"
#include "pipeline/staging.hpp"

namespace gantry {

class PipelineRun {
 public:
  /// Runs only `steps` of the job; halos reach beyond them.
  PipelineRun(Device& device, const PipelineJob& job, const PipelineOptions& options,
              const StepRange& steps)
      : device_(device), job_(job), options_(options), steps_(steps) {}

  [[nodiscard]] Result<PipelineReport> run();

 private:
  using Failure = ChunkExecutor::Failure;
  using Clock = Deadline::Clock;

  [[nodiscard]] bool is_sequential() const noexcept {
    return options_.mode == PipelineMode::sequential ||
           options_.mode == PipelineMode::sequential_pinned ||
           options_.mode == PipelineMode::unbatched;
  }
  [[nodiscard]] std::uint64_t steps_left() const noexcept {
    return steps_.last - executor_->steps_done();
  }

  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> check_halos() const;
  [[nodiscard]] Result<void> bring_broadcasts();
  [[nodiscard]] Result<void> bring_broadcast(RunArray& array);
  [[nodiscard]] Result<PlanInput> plan_input();

  [[nodiscard]] Result<ChunkChoice> choose();
  [[nodiscard]] Result<ChunkChoice> choose_by_hand();
  [[nodiscard]] Result<ChunkChoice> measure();
  /// For jobs that need no copies.
  [[nodiscard]] ChunkChoice choose_shared();
  [[nodiscard]] bool is_all_shared() const noexcept;
  [[nodiscard]] std::uint64_t in_grains(std::uint64_t steps) const noexcept;
  struct Measured {
    MeasuredChunk small, large;
    double making_ns_per_byte = 0;       ///< Of the last ring.
    double registering_ns_per_byte = 0;  ///< Of its host memory.
    std::string why_plain;               ///< Why that is not registered.
  };
  /// One way for the caller's memory to the device, its plan, and the time it is predicted to take.
  struct Way {
    Staging staging;
    PipelinePlan plan;
    ChunkChoice choice;
    std::chrono::nanoseconds time;
  };
  [[nodiscard]] Result<ChunkChoice> choose_way(std::span<RunArray* const> arrays,
                                               const Measured& measured, std::optional<Way> direct);
  [[nodiscard]] Result<std::optional<ChunkChoice>> measure_chunks(Measured& measured);
  [[nodiscard]] Result<Way> measured_way(const Measured& measured, Staging staging);
  [[nodiscard]] Result<Way> direct_way();
  [[nodiscard]] Result<ChunkRing> probe_ring(std::uint64_t steps, Measured& measured);
  /// Runs the next steps as one chunk, timed.
  [[nodiscard]] Result<MeasuredChunk> probe(ChunkRing& ring, std::uint64_t steps);

  [[nodiscard]] Result<void> flow(ChunkChoice choice);
  [[nodiscard]] Result<ChunkRing> make_ring(ChunkChoice& choice);
  [[nodiscard]] bool may_retry(const ChunkFailure& failure, const ChunkChoice& choice) const;
  [[nodiscard]] tl::unexpected<Error> named(Error error, const Chunk& chunk) const;
  void finish(const ChunkRing& ring);
  [[nodiscard]] static std::string not_registered(std::string_view why);

  Device& device_;
  const PipelineJob& job_;
  const PipelineOptions& options_;
  const StepRange steps_;
  PipelineReport report_;
  ZeroCopy zero_copy_;
  Registering registering_;
  std::vector<RunArray> arrays_;
  ChunkCut cut_;
  std::unique_ptr<ChunkExecutor> executor_;
  Failure probe_failure_;  // the failure that ended the measurement
};

}  // namespace gantry
