#pragma once  // pipeline/stage_executor.hpp: sends messages through the three queues of a
              // device.

#include <condition_variable>
#include <gantry/pipeline.hpp>
#include <mutex>

#include "pipeline/chunk_executor.hpp"

namespace gantry {

/// One run_stage(). A thread of its own receives and submits copy-in and compute; the caller brings
/// results back and publishes them. Slots go from the submitter to the completer and back under
/// mutex_. The completer asks for a place when a result is there. If the device computes in place,
/// the submitter asks before it launches, for all results that have none so far, but takes only
/// places that can be had at once. So neither computing nor committing ever waits for a place that
/// somebody else has to make.
///   I1  completed_ <= submitted_ <= completed_ + depth.
///   I2  The submitter writes slot i when submitted_ == i and i < completed_ + depth; the completer
///       has it when i < submitted_ and i == completed_, except `destination`: I4.
///   I3  Only the thread that has the turn calls the ends' `place` and `committed`; the turn is
///       taken and ended under mutex_.
///   I4  Places are given in the order of receipt: slot i has its destination when i < placed_.
///       Both belong to the thread that has the turn; a destination is the completer's alone once
///       it has seen it there.
class StageExecutor {
 public:
  StageExecutor(Device& device, const PipelineJob& job, const PipelineOptions& options,
                const StageCallbacks& ends)
      : device_(device), job_(job), options_(options), ends_(ends) {}

  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> run();
  [[nodiscard]] const PipelineStageReport& report() const noexcept { return report_; }

 private:
  struct StageSlot {
    struct Array {
      DeviceBuffer own;   // kept from message to message
      DeviceBuffer over;  // memory of the message, or of its result's place
      ByteSpan lies;      // that memory
      [[nodiscard]] const DeviceBuffer& buffer() const noexcept { return over ? over : own; }
      void let_go() noexcept { over = {}, lies = {}; }
    };
    std::vector<Array> arrays;  // one for each argument
    Chunk chunk;
    MessageInfo info;
    bool is_held = false;  // the message is: its memory is computed on
    std::optional<Result<StageCallbacks::Destination>> destination;  // I4
    ChunkSlot::Stage copy_in, compute;
  };
  /// Who uses `place` and `committed`, and for what.
  enum class Turn : std::uint8_t {
    nobody,
    ahead,       // the submitter asks for places that can be had at once
    committing,  // the completer
    waiting,     // the completer waits for a place, which may take long
  };

  void describe();
  void describe_end();

  // The submitter's.
  void submit_all() noexcept;
  [[nodiscard]] Result<StageCallbacks::Received> receive();
  [[nodiscard]] Result<void> submit(StageSlot& slot, const StageCallbacks::Received& message);
  [[nodiscard]] Result<std::uint64_t> steps_of(const StageCallbacks::Received& message) const;
  [[nodiscard]] bool may_hold();
  [[nodiscard]] Result<void> make_room(StageSlot& slot, std::size_t index);
  [[nodiscard]] Result<void> bring(StageSlot& slot, std::size_t index,
                                   const StageCallbacks::Received& message, bool may_hold);
  [[nodiscard]] Result<void> submit_in(StageSlot& slot, std::size_t index,
                                       const StageCallbacks::Received& message);
  [[nodiscard]] Result<void> make_place(StageSlot& slot);
  [[nodiscard]] Result<void> submit_compute(StageSlot& slot);

  // The caller's.
  [[nodiscard]] Result<void> complete_all();
  [[nodiscard]] Result<void> complete(StageSlot& slot);
  [[nodiscard]] Result<void> bring_back(StageSlot& slot);
  [[nodiscard]] Result<void> fold(StageSlot& slot, std::size_t index);
  void let_message_go(StageSlot& slot);

  // The ends.
  void place_ahead(std::uint64_t number);
  [[nodiscard]] Result<StageCallbacks::Destination> place_of(std::uint64_t number);
  [[nodiscard]] Result<void> commit(StageSlot& slot);
  [[nodiscard]] Result<StageCallbacks::Destination> place(const StageSlot& slot,
                                                          Deadline deadline) const;
  [[nodiscard]] bool take_turn_ahead();
  void take_turn(Turn turn);
  void end_turn();
  [[nodiscard]] Bytes result_bytes(const StageSlot& slot) const;

  [[nodiscard]] bool has_stopped();
  [[nodiscard]] StageSlot& slot(std::uint64_t index) { return slots_[index % slots_.size()]; }

  Device& device_;
  const PipelineJob& job_;
  const PipelineOptions& options_;
  const StageCallbacks& ends_;
  Kernel kernel_;
  RunQueues queues_;
  std::vector<DeviceBuffer> broadcasts_;  // one for each argument, mostly empty
  std::vector<StageSlot> slots_;
  ZeroCopy zero_copy_;
  std::size_t output_ = 0;  // index of the argument
  PipelineStageReport report_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t held_ = 0;  // messages that are computed on where they lie
  Turn turn_ = Turn::nobody;
  bool stop_ = false;
  std::optional<Error> submit_error_;  // `closed`: everything was received

  // Used by the thread that has the turn.
  std::uint64_t placed_ = 0;       // results that have their places, or were refused one
  bool is_place_refused_ = false;  // by an error that the completer will meet
};

}  // namespace gantry
