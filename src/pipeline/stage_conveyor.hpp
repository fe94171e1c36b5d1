#pragma once  // pipeline/stage_conveyor.hpp: messages through the three queues of a device.

#include <condition_variable>
#include <gantry/pipeline_stage.hpp>
#include <mutex>

#include "pipeline/conveyor.hpp"

namespace gantry {

/// One run_stage(). A thread of its own receives and submits copy-in and compute; the caller
/// brings results back and publishes them. Slots go between the two as in Conveyor. The ends'
/// `place` and `landed` are for who has the turn: stage_places.cpp.
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
    struct Array {
      DeviceBuffer own;   // kept from message to message
      DeviceBuffer over;  // memory of the message's, or of its result's place
      ByteSpan lies;      // which
      [[nodiscard]] const DeviceBuffer& buffer() const noexcept { return over ? over : own; }
      void let_go() noexcept { over = {}, lies = {}; }
    };
    std::vector<Array> arrays;  // one for each argument
    Chunk chunk;
    MessageInfo info;
    bool is_held = false;                               // the message: its memory is computed on
    std::optional<Result<StageEnds::Landing>> landing;  // I4
    ChunkSlot::Stage copy_in, compute;
  };
  /// Who uses `place` and `landed`, and for what.
  enum class Turn : std::uint8_t {
    nobody,
    ahead,    // the feeder asks for places that are to be had at once
    landing,  // the collector
    waiting,  // the collector, for a place: that may take long
  };

  void describe();
  void describe_end();

  // The feeder's.
  void feed_all() noexcept;
  [[nodiscard]] Result<StageEnds::Arrival> receive();
  [[nodiscard]] Result<void> feed(StageSlot& slot, const StageEnds::Arrival& message);
  [[nodiscard]] Result<std::uint64_t> steps_of(const StageEnds::Arrival& message) const;
  [[nodiscard]] bool may_hold();
  [[nodiscard]] Result<void> make_room(StageSlot& slot, std::size_t index);
  [[nodiscard]] Result<void> bring(StageSlot& slot, std::size_t index,
                                   const StageEnds::Arrival& message, bool may_hold);
  [[nodiscard]] Result<void> submit_in(StageSlot& slot, std::size_t index,
                                       const StageEnds::Arrival& message);
  [[nodiscard]] Result<void> make_place(StageSlot& slot);
  [[nodiscard]] Result<void> submit_compute(StageSlot& slot);

  // The caller's.
  [[nodiscard]] Result<void> collect_all();
  [[nodiscard]] Result<void> collect(StageSlot& slot);
  [[nodiscard]] Result<void> bring_back(StageSlot& slot);
  [[nodiscard]] Result<void> fold(StageSlot& slot, std::size_t index);
  void let_message_go(StageSlot& slot);

  // The ends.
  void place_ahead(std::uint64_t number);
  [[nodiscard]] Result<StageEnds::Landing> place_of(std::uint64_t number);
  [[nodiscard]] Result<void> land(StageSlot& slot);
  [[nodiscard]] Result<StageEnds::Landing> place(const StageSlot& slot, Deadline deadline) const;
  [[nodiscard]] bool take_turn_ahead();
  void take_turn(Turn turn);
  void end_turn();
  [[nodiscard]] Bytes result_bytes(const StageSlot& slot) const;

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
  Sharing sharing_;
  std::size_t output_ = 0;  // the argument
  PipelineStageReport report_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t fed_ = 0;
  std::uint64_t collected_ = 0;
  std::uint64_t held_ = 0;  // messages that are computed on where they lie
  Turn turn_ = Turn::nobody;
  bool stop_ = false;
  std::optional<Error> feed_error_;  // `closed`: all was received

  // Of who has the turn.
  std::uint64_t placed_ = 0;       // results that have their places, or were refused one
  bool is_place_refused_ = false;  // by an error that the collector will come to
};

}  // namespace gantry
