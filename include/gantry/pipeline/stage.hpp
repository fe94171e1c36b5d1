#pragma once  // gantry/pipeline/stage.hpp: messages through a device: received, computed, sent.

#include <functional>
#include <gantry/channel.hpp>
#include <gantry/pipeline/pipeline.hpp>

namespace gantry {

/// What a stage did; text() also says what was chosen, and why.
struct GANTRY_API PipelineStageReport {
  std::uint64_t messages = 0;          ///< Messages whose results were sent.
  std::uint64_t read_in_place = 0;     ///< Messages computed on where they lay, uncopied.
  std::uint64_t written_in_place = 0;  ///< Results that the kernel wrote where they are sent from.
  Bytes bytes_in = 0;                  ///< Of the segments that the kernel reads.
  Bytes bytes_out = 0;                 ///< Of the results.
  std::chrono::nanoseconds elapsed{};  ///< From the call to its return.
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};  ///< Each stream's work, in sum.
  std::string device = {};                                    ///< Its name.
  unsigned depth = 0;                                         ///< Messages in flight.
  std::vector<std::string> reasons = {};  ///< What was chosen, and why; one line each.

  /// The same for people, some lines.
  [[nodiscard]] std::string text() const;
};

/// Where a stage's messages come from and its results go to, if these are not plain channels: the
/// ends that `gantry run` hands out, messages that are checked or rewritten first, several results
/// in one message. A thread of the run calls `receive`. The calling thread calls `place` and
/// `committed` for each result in the order of receipt, `committed` before the next `place`; but
/// see `places`. Serves one run at a time.
struct GANTRY_API StageCallbacks {
  /// A message that arrived, in the channel's own memory.
  struct Received {
    std::vector<ConstByteSpan> segments;  ///< PipelineSource::message() selects from them.
    MessageInfo info = {};                ///< Passed on to the other two.
    /// Keeps the segments alive; dropped once they are copied in, or, in place, once they are
    /// computed.
    KeepAlive keep = {};
  };
  /// Where the result shall lie.
  struct Destination {
    ByteSpan bytes;       ///< As many as were asked for; else `invalid_argument`.
    KeepAlive keep = {};  ///< Keeps `bytes` alive: the device may write there until it is dropped.
  };
  /// Returns the next message. `closed` ends the stage well; after `timed_out` it is called again.
  std::function<Result<Received>(Deadline)> receive;
  /// Returns where to write the `size` bytes of a message's result.
  std::function<Result<Destination>(const MessageInfo&, Bytes size, Deadline)> place;
  /// Called when they are written.
  std::function<Result<void>(const MessageInfo&)> committed;

  /// Results that may have their places at the same time. With more than 1 a device that computes
  /// in place gets places before it computes: the receiving thread then calls `place`, too, with a
  /// deadline that has passed, and never during a call of it or of `committed`. A place that cannot
  /// be had at once is `timed_out` (or `busy`, `out_of_memory`) and asked for later; meanwhile that
  /// result is computed in the device's memory and copied. `committed` keeps the order of receipt;
  /// a failed result is dropped without it.
  unsigned places = 1;
  /// Messages that the sender lets this stage hold. One of them is never computed on where it lies,
  /// so that the sender can fill the next meanwhile. 0: any number.
  unsigned holds = 0;

  /// Sends each result as a message of its own, with the MessageInfo::type and MessageInfo::user of
  /// what it was made from; it has as many places as `to` has credits. Both ends must outlive the
  /// returned value.
  [[nodiscard]] static StageCallbacks of(Consumer& from, Producer& to);
};

/// Runs a stage: receives messages, computes, sends, with different messages in each step. Inputs
/// of the job may be PipelineSource::message() (at least one) and one output
/// PipelineSink::message(). Each message is a chunk; its number is Chunk::index, and its steps are
/// the size of its first such segment divided by the bytes per step. The job's own steps do not
/// count. Results are sent in the order of receipt. The stage ends well when there is nothing more
/// to receive. Depth: PipelineOptions::depth, else 3.
///
/// In place, without copies, by the rules of Staging::shared: messages are computed on where they
/// lie, results written where they are sent from. A message's slot then goes back to its sender
/// when it is computed. Meanwhile the kernel sees whatever the sender, who owns the memory, does to
/// it: a kernel that checks what it reads and reads it again trusts a hostile sender.
/// Staging::direct copies each message once, and computes on the copy.
///
/// PipelineOptions::stall_limit is about the device only: a silent sender, or a receiver that takes
/// nothing, is waited for until the deadline.
///
/// Errors: as run_pipeline(), with the message's number in place of the chunk's; those of the ends.
/// Results that were committed before stay.
[[nodiscard]] GANTRY_API Result<PipelineStageReport> run_stage(Device& device,
                                                               const PipelineJob& job,
                                                               const StageCallbacks& ends,
                                                               const PipelineOptions& options = {});
/// Runs a stage from channel to channel: StageCallbacks::of(). Both ends are the stage's while it
/// runs; `to` stays open.
[[nodiscard]] GANTRY_API Result<PipelineStageReport> run_stage(Device& device,
                                                               const PipelineJob& job,
                                                               Consumer& from, Producer& to,
                                                               const PipelineOptions& options = {});

}  // namespace gantry
