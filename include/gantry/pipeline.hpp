#pragma once  // gantry/pipeline.hpp: large jobs through a device in chunks; stages.

#include <functional>
#include <gantry/channel.hpp>
#include <gantry/device.hpp>
#include <gantry/memory.hpp>
#include <optional>
#include <ranges>

namespace gantry {

/// A part of a job: `steps` steps from `first` on. The job's author defines a step: an element, a
/// row, a block of a file.
struct Chunk {
  std::uint64_t index = 0;  ///< Number of the chunk in the job, from 0.
  std::uint64_t first = 0;
  std::uint64_t steps = 0;
};

// ---- sources and sinks of data -------------------------------------------------------------

/// The input of a job. A plain value. Memory must stay valid and unchanged until the run has
/// returned.
class GANTRY_API PipelineSource {
 public:
  /// Fills `to` with the bytes from `offset` on.
  using Read = std::function<Result<void>(std::uint64_t offset, ByteSpan to)>;

  /// Reads the caller's memory, which must outlive the job's runs.
  [[nodiscard]] static PipelineSource memory(ConstByteSpan bytes);
  /// Reads memory that the caller registered with the device's registrar, or with one of its kind.
  [[nodiscard]] static PipelineSource registered(ConstByteSpan bytes);
  /// Reads a block and keeps a handle to it. The block counts as registered if its pool knows the
  /// device's registrar.
  [[nodiscard]] static PipelineSource block(const Block& block);
  /// Reads the plan's destination, made from the caller's memory `from`, which is the plan's
  /// source. The staging copy converts the source chunk by chunk, so only the result goes to the
  /// device; steps, sizes and halos (see Halo) refer to the destination.
  [[nodiscard]] static PipelineSource reshaped(ConstByteSpan from, ReshapePlan plan);
  /// Opens the file now and reads `size` bytes of it from `offset` on; 0: to its end.
  /// PipelineOptions::file_io determines the method. If the file shrinks later, the first chunk
  /// that lacks bytes fails. Errors: those of open().
  [[nodiscard]] static Result<PipelineSource> file(const std::string& path,
                                                   std::uint64_t offset = 0,
                                                   std::uint64_t size = 0);
  /// Reads by a callback. One thread at a time calls `read`, with offsets that may fall because of
  /// halos. An error ends the run.
  [[nodiscard]] static PipelineSource reader(std::uint64_t size, Read read);
  /// For run_stage(): reads segment `segment` of each message.
  [[nodiscard]] static PipelineSource message(std::size_t segment = 0);

  /// Origin of the bytes, set by the function of the same name; registered() and block() set
  /// memory.
  enum class Kind : std::uint8_t { memory, reader, message, file, reshaped };
  Kind kind = Kind::memory;    ///< Determines which of the fields below are used.
  std::uint64_t size = 0;      ///< Size in bytes; 0 for messages, which have different sizes.
  ConstByteSpan bytes = {};    ///< For memory and reshaped: the caller's memory.
  bool is_registered = false;  ///< For memory.
  Read read = {};              ///< For readers.
  std::shared_ptr<const OpenFile> opened = {};  ///< For files.
  std::size_t segment = 0;                      ///< For messages.
  std::optional<ReshapePlan> plan = {};         ///< For reshaped.
  std::shared_ptr<Block> held = {};  ///< The handle of block(), which keeps the block alive.
  std::string name = {};             ///< Name in error messages.
  /// Device, inode, offset: to detect a source and a sink in one file.
  std::array<std::uint64_t, 3> file_range{};
};

/// The output of a job. A plain value; `kind`, `size`, `bytes`, `is_registered`, `held`, `name` and
/// `file_range` are as PipelineSource's.
class GANTRY_API PipelineSink {
 public:
  /// Takes the bytes from `offset` on.
  using Write = std::function<Result<void>(std::uint64_t offset, ConstByteSpan from)>;

  /// Writes the caller's memory, which must outlive the job's runs.
  [[nodiscard]] static PipelineSink memory(ByteSpan bytes);
  /// As PipelineSource::registered().
  [[nodiscard]] static PipelineSink registered(ByteSpan bytes);
  /// Writes a block and keeps a handle to it.
  [[nodiscard]] static PipelineSink block(const Block& block);
  /// Opens the file, or creates it, with room for `size` bytes from `offset` on; existing contents
  /// stay. Errors: those of open() and ftruncate().
  [[nodiscard]] static Result<PipelineSink> file(const std::string& path, std::uint64_t size,
                                                 std::uint64_t offset = 0);
  /// Writes by a callback. The thread that called run_pipeline() calls `write`, with offsets that
  /// rise without gaps.
  [[nodiscard]] static PipelineSink writer(std::uint64_t size, Write write);
  /// For run_stage(): writes the message that is sent.
  [[nodiscard]] static PipelineSink message();

  /// Target of the bytes; as PipelineSource::Kind.
  enum class Kind : std::uint8_t { memory, writer, message, file };
  Kind kind = Kind::memory;
  std::uint64_t size = 0;
  ByteSpan bytes = {};
  bool is_registered = false;
  Write write = {};                             ///< For writers.
  std::shared_ptr<const OpenFile> opened = {};  ///< For files.
  std::shared_ptr<Block> held = {};
  std::string name = {};
  std::array<std::uint64_t, 3> file_range{};
};

// ---- the job -------------------------------------------------------------------------------

/// Contents beyond the first and the last step of an input with a halo.
enum class Edge : std::uint8_t {
  zero,   ///< Bytes 0.
  clamp,  ///< The first or last step, repeated.
  wrap,   ///< The other end: step -1 is the last one.
};

/// Neighbouring steps that come with each chunk: its buffer begins `before` steps ahead of the
/// chunk's first step and ends `after` steps behind its last one, so kernels do not need a special
/// case at borders.
struct Halo {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  Edge edge = Edge::zero;  ///< Contents beyond the ends of the input.
};

/// A contiguous range of elements in memory that the argument does not own.
template <class Array>
concept PipelineArray =
    std::ranges::contiguous_range<Array> && std::ranges::borrowed_range<Array> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Array>>;

/// A computation: a kernel, and its arguments in the order in which they are added here. An array's
/// slice for a chunk of n steps has n times the array's bytes per step, so arrays may differ in
/// element size and total size. Every buffer is as large as the largest chunk needs: kernels must
/// use count(), and must not write into inputs and broadcasts, which may be the caller's own memory
/// (Staging::shared). A plain value; run it as often as you like.
class GANTRY_API PipelineJob {
 public:
  /// Receives a partial result; called in the order of chunks by the thread that called
  /// run_pipeline(). A chunk that several threads computed has several partial results: with the
  /// first of them `chunk` has all the steps, with the others 0 steps. An error ends the run.
  using Fold = std::function<Result<void>(ConstByteSpan partial, const Chunk& chunk)>;
  /// Makes the launch for a chunk of `steps` steps.
  using Range = std::function<LaunchRange(std::uint64_t steps)>;

  /// Each run builds the source for its device.
  PipelineJob(ProgramSource source, std::string kernel, std::uint64_t steps)
      : steps_(steps), source_(std::move(source)), kernel_name_(std::move(kernel)) {}
  /// Uses a kernel that is already built, for one device.
  PipelineJob(Kernel kernel, std::uint64_t steps) : steps_(steps), kernel_(std::move(kernel)) {}

  /// Adds an array that is read, `step_bytes` of it for each step, with the neighbouring steps of
  /// `halo`.
  PipelineJob& input(PipelineSource from, Bytes step_bytes, Halo halo = {});
  /// Adds an array that is written, `step_bytes` of it for each step.
  PipelineJob& output(PipelineSink to, Bytes step_bytes);
  /// Adds an array that is read and then overwritten with the kernel's result in the same buffer.
  PipelineJob& in_place(ByteSpan memory, Bytes step_bytes);
  /// Adds such an array as a sink with further properties: PipelineSink::registered(), block().
  PipelineJob& in_place(PipelineSink memory, Bytes step_bytes);
  /// Adds an array that each chunk sees whole; it is copied to the device once.
  PipelineJob& broadcast(PipelineSource from);
  /// Gives each chunk's kernel `bytes` bytes of value `initial`, to which the kernel adds its part
  /// of the result. On `cpu` each thread has separate bytes (DeviceFacts::partials): a kernel that
  /// adds does not need atomics, and untouched parts are not folded. So `initial` must be neutral
  /// in the fold.
  PipelineJob& reduction(Bytes bytes, Fold fold, std::byte initial = {});
  /// Adds a value that is equal for every chunk.
  PipelineJob& value(const KernelArgument& value);
  /// Adds local memory for each work group, initially undefined.
  PipelineJob& local(Bytes bytes);
  PipelineJob& count();  ///< Adds a std::uint64_t (`ulong`): number of steps of the chunk.
  /// Adds a std::uint64_t (`ulong`): number of the chunk's first step in the job.
  PipelineJob& first();
  /// Sets the launch of a chunk. Default: LaunchRange::linear(steps).
  PipelineJob& range(Range range);

  // Arrays of elements, `per_step` of them for each step: spans of any extent, and vectors, arrays
  // and similar ranges that are not temporaries, since they are not copied.
  template <PipelineArray Array>
  PipelineJob& input(Array&& data, std::uint64_t per_step = 1, Halo halo = {}) {
    const std::span elements(std::forward<Array>(data));
    return input(PipelineSource::memory(std::as_bytes(elements)),
                 bytes_of<typename decltype(elements)::element_type>(per_step), halo);
  }
  /// Adds an array that is written, `per_step` elements of it for each step.
  template <PipelineArray Array>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Array>>>)
  PipelineJob& output(Array&& data, std::uint64_t per_step = 1) {
    const std::span elements(std::forward<Array>(data));
    return output(PipelineSink::memory(std::as_writable_bytes(elements)),
                  bytes_of<typename decltype(elements)::element_type>(per_step));
  }
  /// Adds an array that each chunk sees whole.
  template <PipelineArray Array>
  PipelineJob& broadcast(Array&& data) {
    return broadcast(PipelineSource::memory(std::as_bytes(std::span(std::forward<Array>(data)))));
  }

  /// One argument of the kernel, in the order of the calls above.
  struct Argument {
    /// Kind of the argument.
    enum class Kind : std::uint8_t {
      input,      ///< Copied in, chunk by chunk.
      output,     ///< Copied out, chunk by chunk.
      in_place,   ///< Copied in and out, chunk by chunk.
      broadcast,  ///< Copied in, once.
      reduction,  ///< Folded, chunk by chunk.
      value,      ///< Equal for every chunk; or local memory.
      count,      ///< Number of steps of the chunk.
      first       ///< Number of the chunk's first step.
    };
    Kind kind = Kind::value;     ///< Determines which of the fields below are used.
    PipelineSource source = {};  ///< For arguments that are copied in.
    PipelineSink sink = {};      ///< For arguments that are copied out.
    Bytes step_bytes = 0;        ///< Bytes per step; for a reduction: all of its bytes.
    Halo halo = {};              ///< For an input.
    Fold fold = {};              ///< For a reduction.
    std::byte initial{};         ///< For a reduction: value of each byte before the kernel.
    std::optional<KernelArgument> value = {};  ///< For a value, or local memory.

    /// True if the argument is copied in chunk by chunk.
    [[nodiscard]] bool reads() const noexcept {
      return kind == Kind::input || kind == Kind::in_place;
    }
    /// True if the argument is copied out chunk by chunk.
    [[nodiscard]] bool writes() const noexcept {
      return kind == Kind::output || kind == Kind::in_place;
    }
  };
  /// Number of steps of the whole job.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  /// Arguments in the order in which they were added.
  [[nodiscard]] const std::vector<Argument>& arguments() const noexcept { return arguments_; }
  /// The launch by range() for a chunk of `steps` steps.
  [[nodiscard]] LaunchRange range_for(std::uint64_t steps) const;
  /// A copy of the job with a kernel that is already built.
  [[nodiscard]] PipelineJob with_kernel(Kernel kernel) const;
  /// Replaces the fold of the reduction at argument `index`.
  PipelineJob& set_fold(std::size_t index, Fold fold);
  /// Builds the kernel for a device, if it is not built. Errors: as Device::build() and
  /// Program::kernel().
  [[nodiscard]] Result<Kernel> kernel_on(Device& device) const;

 private:
  // Saturates at the largest value, which is refused because no memory has that size.
  template <class T>
  [[nodiscard]] static constexpr Bytes bytes_of(std::uint64_t elements) noexcept {
    return elements > ~Bytes{0} / sizeof(T) ? ~Bytes{0} : elements * sizeof(T);
  }

  std::uint64_t steps_;
  ProgramSource source_;
  std::string kernel_name_;
  Kernel kernel_;
  std::vector<Argument> arguments_;
  Range range_;
};

// ---- how a job runs ------------------------------------------------------------------------

/// How chunks follow each other.
enum class PipelineMode : std::uint8_t {
  automatic,   ///< Overlapped; the first chunks determine chunk size, depth and staging.
  sequential,  ///< One chunk after another: copy-in, launch, blocking copy-out; one queue, pageable
               ///< memory.
  sequential_pinned,    ///< As sequential, with all memory registered in place.
  overlapped_pageable,  ///< Three queues, memory as it is.
  overlapped_pinned,    ///< Three queues, all memory registered in place.
  unbatched,  ///< One chunk; `device_full` or `too_large` if it does not fit on the device.
};
[[nodiscard]] GANTRY_API std::string_view to_string(PipelineMode mode) noexcept;

/// How the device accesses memory.
enum class Staging : std::uint8_t {
  automatic,   ///< Chosen for each array.
  direct,      ///< The device copies from and to the memory as it is.
  ring,        ///< Through a small ring of host memory, registered where that pays.
  in_place,    ///< The whole array is registered during the run.
  registered,  ///< Already registered: PipelineSource::registered(). Reported only; must not be
               ///< requested.
  /// Without copies: the device computes on the memory itself. `automatic` runs choose it if the
  /// device shares the host's memory (DeviceFacts::in_place_alignment), but not with a time limit
  /// (an abandoned kernel would still use the caller's memory), not with a copier, and not for an
  /// output that lies on another argument's input. Kernels then see the caller's alignment. Chunks
  /// that begin at an alignment the device does not accept, and chunks that a halo assembles from
  /// several pieces, are copied. Touching memory that is not present raises a signal.
  shared,
};
[[nodiscard]] GANTRY_API std::string_view to_string(Staging staging) noexcept;

/// How a job is cut and staged; unset fields are chosen automatically.
struct PipelineOptions {
  PipelineMode mode = PipelineMode::automatic;  ///< How chunks follow each other.
  std::uint64_t chunk_steps = 0;                ///< Steps of a chunk; 0: automatic.
  unsigned depth = 0;                    ///< Number of chunks in flight, at most 64; 0: automatic.
  Staging staging = Staging::automatic;  ///< For memory; files and readers always use a ring.
  /// Expected number of runs of this memory through this device; limits the cost of registering it.
  std::uint64_t uses = 1;
  Bytes device_bytes = 0;  ///< Limit of device memory; 0: most of the free memory.
  /// Copies between user memory and the ring; access to missing memory is then an error, not a
  /// signal. Null: memcpy().
  std::shared_ptr<Engine> copier = {};
  /// Reads and writes files. Null: the device's (Device::file_io()), or pread() and pwrite() if the
  /// device has none; the plan names the choice.
  std::shared_ptr<FileIo> file_io = {};
  Deadline deadline = Deadline::never();  ///< Deadline of the whole run.
  /// Longest time without the end of a chunk; zero: no limit. Past it, or past the deadline,
  /// kernels are told to stop. If any work has not ended after the same time again (at least a
  /// second), the device is abandoned. File reads and writes that the kernel has not completed by
  /// then are left to it, together with their memory; such a write may land later.
  std::chrono::nanoseconds stall_limit{};
  bool keep_timeline = false;  ///< Whether to fill PipelineReport::timeline.
};

/// Choices for a run, with reasons.
struct GANTRY_API PipelinePlan {
  PipelineMode mode = PipelineMode::automatic;  ///< PipelineOptions::mode.
  std::uint64_t chunk_steps = 0;                ///< Steps of a full chunk.
  std::uint64_t chunks = 0;           ///< Chunks of the whole job, including the measured ones.
  unsigned depth = 0;                 ///< Number of chunks in flight.
  Bytes device_bytes = 0;             ///< Device memory used by the ring.
  Bytes ring_bytes = 0;               ///< Host memory used for staging.
  std::vector<Staging> staging = {};  ///< For each argument; `automatic` if it is not an array.
  /// Costs of one stream, from the measured chunks.
  struct Stream {
    std::chrono::nanoseconds start{};  ///< Fixed time of a chunk.
    double ns_per_step = 0;            ///< Additional time of each step.
  };
  Stream copy_in, compute, copy_out;     ///< Zero if not measured.
  std::chrono::nanoseconds predicted{};  ///< Time for all chunks; zero if not measured.
  std::vector<std::string> reasons;      ///< Reasons for the choices; one line each.

  /// The plan for people, several lines.
  [[nodiscard]] std::string text() const;
};

/// Times of a chunk in each stage. Copies of several arrays count as one.
struct ChunkTimes {
  Chunk chunk;                              ///< The chunk.
  DeviceTiming copy_in, compute, copy_out;  ///< On the device's queues.
  /// Host work: filling the ring before copy_in; after copy_out, emptying the ring and folding.
  /// Zero if there is none.
  DeviceTiming stage_in, stage_out;
};

/// Result of a run.
struct GANTRY_API PipelineReport {
  PipelinePlan plan;                   ///< The choices that were made.
  std::chrono::nanoseconds elapsed{};  ///< From the call to its return.
  /// Time before the first chunk: building, allocating, registering.
  std::chrono::nanoseconds setup{};
  std::chrono::nanoseconds registering{};                     ///< Part of `setup`.
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};  ///< Total work of each stream.
  Bytes bytes_in = 0;    ///< Bytes of inputs with their halos, and of copied broadcasts.
  Bytes bytes_out = 0;   ///< Bytes of outputs; arrays in place count in both.
  unsigned shrinks = 0;  ///< Number of times that a lack of device memory made chunks smaller.
  std::vector<ChunkTimes> timeline;  ///< With PipelineOptions::keep_timeline.

  /// How the job was cut, and why.
  [[nodiscard]] const PipelinePlan& explain() const noexcept { return plan; }
};

// ---- the calls -----------------------------------------------------------------------------

/// Sends the job's data through the device chunk by chunk, several chunks in flight. Waits for the
/// end; uses one more thread. Results equal those of a loop over all steps, whatever the chunks.
///
/// Errors before any work: `invalid_argument` (no work, sizes that do not correspond, an output
/// that overlaps another array otherwise than step for step), those of Device::build(). Later
/// errors begin with the chunk ("chunk 7 (steps 700 to 799): ..."): `device_full` when not even a
/// chunk of one step fits, `device_lost`, `kernel_fault`, `timed_out`, those of sources, sinks and
/// folds (`system` for a truncated file). On return the queues are drained and the buffers freed.
/// Chunks before the named one have landed; results of later chunks are undefined.
[[nodiscard]] GANTRY_API Result<PipelineReport> run_pipeline(Device& device, const PipelineJob& job,
                                                             const PipelineOptions& options = {});

/// One device's share of a run on several devices.
struct PipelineShare {
  std::string device;       ///< DeviceFacts::name.
  std::uint64_t first = 0;  ///< Number of the share's first step.
  std::uint64_t steps = 0;  ///< Number of steps.
  PipelineReport report;    ///< Report of this device's run.
};

/// Result of a run on several devices.
struct PipelineTeamReport {
  std::chrono::nanoseconds elapsed{};  ///< From the call to its return.
  std::vector<double> rates;           ///< For each device: steps per nanosecond in the sample.
  std::vector<PipelineShare> shares;   ///< The sample's shares, then those of the other steps.
};

/// Runs one job on several devices at once, each with separate threads. A sixteenth of the steps is
/// run first, in equal shares; the other steps are split by the measured rates. Sources and sinks
/// must be memory, and the job must have its program as source, so that it can be built for each
/// device. Reductions are folded when all devices have ended, in the order of the steps.
///
/// Errors: as run_pipeline() on one device, with the device's name before the chunk; `unsupported`
/// for sources and sinks that are not memory. Devices without an error complete the work that they
/// have begun. If several devices fail, the error at the lowest steps is returned.
[[nodiscard]] GANTRY_API Result<PipelineTeamReport> run_pipeline(
    std::span<Device* const> devices, const PipelineJob& job, const PipelineOptions& options = {});

// ---- messages through a device: received, computed, sent ----------------------------------------

/// Result of a stage; text() also gives the choices and their reasons.
struct GANTRY_API PipelineStageReport {
  std::uint64_t messages = 0;  ///< Messages whose results were sent.
  /// Messages that were computed in their own memory, without a copy.
  std::uint64_t read_in_place = 0;
  /// Results that the kernel wrote into the outgoing message's memory.
  std::uint64_t written_in_place = 0;
  Bytes bytes_in = 0;                  ///< Bytes of the segments that the kernel reads.
  Bytes bytes_out = 0;                 ///< Bytes of the results.
  std::chrono::nanoseconds elapsed{};  ///< From the call to its return.
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};  ///< Total work of each stream.
  std::string device = {};                                    ///< Name of the device.
  unsigned depth = 0;                                         ///< Number of messages in flight.
  std::vector<std::string> reasons = {};  ///< Choices and their reasons; one line each.

  /// The report for people, several lines.
  [[nodiscard]] std::string text() const;
};

/// Input and output of a stage, if they are not plain channels: for example ends that `gantry run`
/// opens, messages that are checked or rewritten first, or several results in one message. A thread
/// of the run calls `receive`. The calling thread calls `place` and `committed` for each result in
/// the order of receipt, `committed` before the next `place`; for more than one place, see
/// `places`. Serves one run at a time.
struct GANTRY_API StageCallbacks {
  /// A message that arrived, in the channel's own memory.
  struct Received {
    std::vector<ConstByteSpan> segments;  ///< PipelineSource::message() selects from them.
    MessageInfo info = {};                ///< Passed to `place` and `committed`.
    /// Keeps the segments alive; dropped once they are copied in, or, in place, once they are
    /// computed.
    KeepAlive keep = {};
  };
  /// Memory for a result.
  struct Destination {
    ByteSpan bytes;  ///< Exactly the requested size; otherwise `invalid_argument`.
    /// Keeps `bytes` alive: the device may write there until this is dropped.
    KeepAlive keep = {};
  };
  /// Returns the next message. `closed` ends the stage successfully; after `timed_out` it is called
  /// again.
  std::function<Result<Received>(Deadline)> receive;
  /// Returns memory for the `size` bytes of a message's result.
  std::function<Result<Destination>(const MessageInfo&, Bytes size, Deadline)> place;
  /// Called when the result is written.
  std::function<Result<void>(const MessageInfo&)> committed;

  /// Number of results that may have their places at the same time. With more than 1, a device that
  /// computes in place gets places before it computes: the receiving thread then also calls
  /// `place`, with an expired deadline, and never during another call of `place` or `committed`. If
  /// no place is free at once, `place` returns `timed_out` (or `busy`, `out_of_memory`) and is
  /// called again later; meanwhile that result is computed in the device's memory and copied.
  /// `committed` keeps the order of receipt; a failed result is dropped without it.
  unsigned places = 1;
  /// Number of messages that the sender lets this stage hold. One of them is never computed in
  /// place, so that the sender can fill the next one meanwhile. 0: any number.
  unsigned holds = 0;

  /// Sends each result as a separate message, with the MessageInfo::type and MessageInfo::user of
  /// its input message; `places` is the number of `to`'s credits. Both ends must outlive the
  /// returned value.
  [[nodiscard]] static StageCallbacks of(Consumer& from, Producer& to);
};

/// Runs a stage: receives messages, computes and sends, with different messages in each phase.
/// The job's inputs must be PipelineSource::message() (at least one), and its one output
/// PipelineSink::message(). Each message is a chunk: Chunk::index is its number, and its steps are
/// the size of its first input segment divided by the bytes per step. The job's own steps are
/// ignored. Results are sent in the order of receipt. The stage ends successfully when the stream
/// is closed. Depth: PipelineOptions::depth, by default 3.
///
/// By the rules of Staging::shared, messages are computed in place, without copies, in their own
/// memory, and results are written into the outgoing message. A message's slot returns to its
/// sender after the computation. Until then the sender can change the memory, which it owns: a
/// kernel that checks its input and reads it again trusts a hostile sender. Staging::direct copies
/// each message once and computes on the copy.
///
/// PipelineOptions::stall_limit covers only the device: the stage waits for a silent sender, or for
/// a receiver that does not take messages, until the deadline.
///
/// Errors: as run_pipeline(), with the message's number in place of the chunk's; those of the ends.
/// Results that were already committed remain.
[[nodiscard]] GANTRY_API Result<PipelineStageReport> run_stage(Device& device,
                                                               const PipelineJob& job,
                                                               const StageCallbacks& ends,
                                                               const PipelineOptions& options = {});
/// Runs a stage from channel to channel: StageCallbacks::of(). The stage uses both ends while it
/// runs; `to` stays open.
[[nodiscard]] GANTRY_API Result<PipelineStageReport> run_stage(Device& device,
                                                               const PipelineJob& job,
                                                               Consumer& from, Producer& to,
                                                               const PipelineOptions& options = {});

}  // namespace gantry
