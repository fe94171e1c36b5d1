#pragma once  // pipeline/stage_conveyor.hpp: messages through the three queues of a device.

#include <condition_variable>
#include <mutex>

#include "pipeline/conveyor.hpp"

namespace gantry {

/// One run_stage(). A thread of its own receives and submits copy-in and compute; the caller
/// brings results back and publishes them. Slots go between the two as in Conveyor.
class StageConveyor {
 public:
  StageConveyor(Device& device, const PipelineJob& job, const PipelineOptions& options,
                const StageEnds& ends)
      : device_(device), job_(job), options_(options), ends_(ends) {}

  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> run();
  [[nodiscard]] const PipelineStageReport& report() const noexcept { return report_; }

 private:
  struct StageSlot {
    std::vector<DeviceBuffer> buffers;
    Chunk chunk;
    MessageInfo info;
    ChunkSlot::Stage copy_in, compute;
  };

  void describe();

  // The feeder's.
  void feed_all() noexcept;
  [[nodiscard]] Result<StageEnds::Arrival> receive();
  [[nodiscard]] Result<void> feed(StageSlot& slot, const StageEnds::Arrival& message);
  [[nodiscard]] Result<std::uint64_t> steps_of(const StageEnds::Arrival& message) const;
  [[nodiscard]] Result<void> make_room(StageSlot& slot);
  [[nodiscard]] Result<void> submit_in(StageSlot& slot, std::size_t index,
                                       const StageEnds::Arrival& message);
  [[nodiscard]] Result<void> submit_compute(StageSlot& slot);

  // The caller's.
  [[nodiscard]] Result<void> collect_all();
  [[nodiscard]] Result<void> collect(StageSlot& slot);
  [[nodiscard]] Result<void> bring_back(StageSlot& slot, std::size_t index);
  [[nodiscard]] Result<void> fold(StageSlot& slot, std::size_t index);

  [[nodiscard]] Deadline limit() const noexcept;
  [[nodiscard]] bool has_stopped();
  [[nodiscard]] StageSlot& slot(std::uint64_t index) { return slots_[index % slots_.size()]; }

  Device& device_;
  const PipelineJob& job_;
  const PipelineOptions& options_;
  const StageEnds& ends_;
  Kernel kernel_;
  RunQueues queues_;
  std::vector<DeviceBuffer> broadcasts_;  // one for each argument, most of them empty
  std::vector<StageSlot> slots_;
  PipelineStageReport report_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t fed_ = 0;
  std::uint64_t collected_ = 0;
  bool stop_ = false;
  std::optional<Error> feed_error_;  // `closed`: all was received
};

}  // namespace gantry
