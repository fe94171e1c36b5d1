#pragma once  // gantry/pipeline/stage.hpp: messages through a device: received, computed, sent.

#include <functional>
#include <gantry/channel.hpp>
#include <gantry/pipeline/pipeline.hpp>

namespace gantry {

/// What a stage did; of what was chosen, and why, text() tells.
struct GANTRY_API PipelineStageReport {
  std::uint64_t messages = 0;
  std::uint64_t read_in_place = 0;     ///< Of them, computed on where they lay, no input copied.
  std::uint64_t written_in_place = 0;  ///< Results that the kernel wrote where they are sent from.
  Bytes bytes_in = 0;
  Bytes bytes_out = 0;
  std::chrono::nanoseconds elapsed{};
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};
  std::string device = {};  ///< Its name.
  unsigned depth = 0;       ///< Messages under way.
  std::vector<std::string> reasons = {};

  [[nodiscard]] std::string text() const;
};

/// Where a stage's messages come from and its results go to, when that is no channel as it is: the
/// ends that `gantry run` hands out, messages that are checked or made over first, several results
/// in one message. `receive` is called by a thread of the run's; `place` and `committed` by the
/// calling thread, for each result in the order of receipt, `committed` before the next `place`;
/// but see `places`. For one run at a time.
struct GANTRY_API StageCallbacks {
  struct Received {
    std::vector<ConstByteSpan> segments;  ///< PipelineSource::message() chooses of them.
    MessageInfo info = {};                ///< Handed on to the other two.
    /// What the segments lie in; let go once copied in, or, in place, once computed.
    KeepAlive keep = {};
  };
  struct Destination {
    ByteSpan bytes;
    KeepAlive keep = {};  ///< What they lie in: the device may write there until it is let go.
  };
  /// The next message. `closed`: that was all, the stage ends well; called again after `timed_out`.
  std::function<Result<Received>(Deadline)> receive;
  /// Where the `size` bytes of a message's result are to be written.
  std::function<Result<Destination>(const MessageInfo&, Bytes size, Deadline)> place;
  /// They are there.
  std::function<Result<void>(const MessageInfo&)> committed;

  /// Results that may have their places at the same time. With more than 1 a device that computes
  /// in place is given them before it computes: `place` is then called by the receiving thread,
  /// too, never while a call of it or of `committed` is under way, with a deadline that has passed.
  /// What cannot be had at once is `timed_out` (or `out_of_memory`) and asked for later; meanwhile
  /// that result is computed in the device's memory and copied. `committed` keeps the order of
  /// receipt; a result that fails is let go without.
  unsigned places = 1;
  /// Messages that whoever sends lets this stage hold; one of them is never computed on where it
  /// lies, so that the next can be filled meanwhile. 0: any number.
  unsigned holds = 0;

  /// Each result as a message of its own, with MessageInfo::type and ::user passed on; as many
  /// places as `to` has credits. Both ends outlive what is returned.
  [[nodiscard]] static StageCallbacks of(Consumer& from, Producer& to);
};

/// A stage: receives messages, computes, sends, with different messages in each. Of the job, inputs
/// may be PipelineSource::message() (one at least) and one output PipelineSink::message(); each
/// message is a chunk, whose steps are its first such segment's size by its bytes per step, and
/// its number is Chunk::index. The job's own steps do not count. Sent in the order of receipt.
/// Ends well when there is nothing more to receive. Depth: PipelineOptions::depth, else 3.
///
/// In place, no copies, by the rules of Staging::shared: messages are computed on where they lie,
/// results written where they are sent from. A message's slot is then its sender's again when it is
/// computed, and the kernel, as who receives, sees whatever the sender, whose memory it is, does to
/// it meanwhile: one that checks what it reads and reads it again believes a hostile sender.
/// Staging::direct copies each message once, and computes on that.
///
/// PipelineOptions::stall_limit is of what the device does: a sender that says nothing, and a
/// receiver that takes nothing, are waited for until the deadline.
///
/// Errors: as run_pipeline(), with the message's number in place of the chunk's; those of the ends.
/// Results that were committed before stay where they are.
[[nodiscard]] GANTRY_API Result<PipelineStageReport> run_stage(Device& device,
                                                               const PipelineJob& job,
                                                               const StageCallbacks& ends,
                                                               const PipelineOptions& options = {});
/// From channel to channel: StageCallbacks::of(). While it runs both ends are its own; `to` stays
/// open.
[[nodiscard]] GANTRY_API Result<PipelineStageReport> run_stage(Device& device,
                                                               const PipelineJob& job,
                                                               Consumer& from, Producer& to,
                                                               const PipelineOptions& options = {});

}  // namespace gantry
