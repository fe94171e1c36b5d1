#pragma once  // gantry/pipeline/pipeline.hpp: runs a large job through a device as chunks; copy-in,
              // compute and copy-out of different chunks overlap.

#include <functional>
#include <gantry/device/device.hpp>
#include <gantry/memory.hpp>
#include <gantry/shape.hpp>
#include <optional>
#include <ranges>

namespace gantry {

/// A part of a job: `steps` steps from `first` on. The job's author decides what a step is: an
/// element, a row, a block of a file.
struct Chunk {
  std::uint64_t index = 0;  ///< Its number in the job, from 0.
  std::uint64_t first = 0;
  std::uint64_t steps = 0;
};

// ---- where data comes from and goes to -----------------------------------------------------

/// What a job reads. A plain value. Memory must stay valid and unchanged until the run has
/// returned.
class GANTRY_API PipelineSource {
 public:
  /// Fills `to` with the bytes from `offset` on.
  using Read = std::function<Result<void>(std::uint64_t offset, ByteSpan to)>;

  /// Reads memory of the caller, which must outlive the job's runs.
  [[nodiscard]] static PipelineSource memory(ConstByteSpan bytes);
  /// Memory that the caller registered with the device's registrar, or with one of its kind.
  [[nodiscard]] static PipelineSource registered(ConstByteSpan bytes);
  /// Holds the block. It counts as registered if its pool knows the device's registrar.
  [[nodiscard]] static PipelineSource block(const Block& block);
  /// Reads the plan's destination, made of the caller's memory `from`, which holds its source. The
  /// staging copy makes it, chunk by chunk, so only its bytes go to the device; steps, sizes and
  /// halos are the destination's.
  [[nodiscard]] static PipelineSource reshaped(ConstByteSpan from, ReshapePlan plan);
  /// Opens the file now and reads `size` bytes of it from `offset` on; 0: to its end.
  /// PipelineOptions::file_io says how. A file that becomes shorter later is an error of the chunk
  /// that misses something. Errors: those of open().
  [[nodiscard]] static Result<PipelineSource> file(const std::string& path,
                                                   std::uint64_t offset = 0,
                                                   std::uint64_t size = 0);
  /// One thread at a time calls it, not always with rising offsets (halos). An error ends the run.
  [[nodiscard]] static PipelineSource reader(std::uint64_t size, Read read);
  /// For run_stage(): segment `segment` of each message.
  [[nodiscard]] static PipelineSource message(std::size_t segment = 0);

  /// Where the bytes come from. The call of the same name sets it; registered() and block():
  /// memory.
  enum class Kind : std::uint8_t { memory, reader, message, file, reshaped };
  Kind kind = Kind::memory;    ///< It says which of the next fields count.
  std::uint64_t size = 0;      ///< In bytes; 0 for messages, each of which has its own.
  ConstByteSpan bytes = {};    ///< Set for memory, and for what is made of it.
  bool is_registered = false;  ///< Set for memory.
  Read read = {};              ///< Set for readers.
  std::shared_ptr<const OpenFile> opened = {};  ///< Set for files.
  std::size_t segment = 0;                      ///< Set for messages.
  std::optional<ReshapePlan> plan = {};         ///< Set by reshaped().
  std::shared_ptr<Block> held = {};             ///< Set by block(): keeps it alive.
  std::string name = {};                        ///< Used in error messages.
  std::array<std::uint64_t, 3> file_range{};    ///< Device, inode, offset: shows which ends alias.
};

/// What a job writes. A plain value; `kind`, `size`, `bytes`, `is_registered`, `held`, `name` and
/// `file_range` are as PipelineSource's.
class GANTRY_API PipelineSink {
 public:
  /// Takes the bytes from `offset` on.
  using Write = std::function<Result<void>(std::uint64_t offset, ConstByteSpan from)>;

  /// Writes memory of the caller, which must outlive the job's runs.
  [[nodiscard]] static PipelineSink memory(ByteSpan bytes);
  [[nodiscard]] static PipelineSink registered(ByteSpan bytes);  ///< As PipelineSource's.
  /// Writes a block, of which it keeps a handle.
  [[nodiscard]] static PipelineSink block(const Block& block);
  /// Opens the file, makes it if need be, with `size` bytes from `offset` on; existing contents
  /// stay. Errors: those of open() and ftruncate().
  [[nodiscard]] static Result<PipelineSink> file(const std::string& path, std::uint64_t size,
                                                 std::uint64_t offset = 0);
  /// The thread that called run_pipeline() calls it, with offsets that rise without gaps.
  [[nodiscard]] static PipelineSink writer(std::uint64_t size, Write write);
  /// For run_stage(): the message that is sent.
  [[nodiscard]] static PipelineSink message();

  /// Where the bytes go; as PipelineSource::Kind.
  enum class Kind : std::uint8_t { memory, writer, message, file };
  Kind kind = Kind::memory;
  std::uint64_t size = 0;
  ByteSpan bytes = {};
  bool is_registered = false;
  Write write = {};                             ///< Set for writers.
  std::shared_ptr<const OpenFile> opened = {};  ///< Set for files.
  std::shared_ptr<Block> held = {};
  std::string name = {};
  std::array<std::uint64_t, 3> file_range{};
};

// ---- the job -------------------------------------------------------------------------------

/// What lies beyond the first and the last step of an input with a halo.
enum class Edge : std::uint8_t {
  zero,   ///< Bytes 0.
  clamp,  ///< The first or last step, repeated.
  wrap,   ///< The other end: step -1 is the last one.
};

/// Steps of the neighbourhood that come with each chunk: its buffer begins `before` steps ahead of
/// the chunk's first step and ends `after` steps behind its last, so that kernels need no case for
/// the borders.
struct Halo {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  Edge edge = Edge::zero;  ///< What lies there at the ends of the input.
};

/// A contiguous range of elements in memory that the argument does not own.
template <class Array>
concept PipelineArray =
    std::ranges::contiguous_range<Array> && std::ranges::borrowed_range<Array> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Array>>;

/// What is to be computed: a kernel, and its arguments in the order in which they are added here.
/// An array's slice for a chunk of n steps is n times its bytes per step, so arrays of different
/// element and total sizes correspond. Every buffer is as large as the largest chunk needs: kernels
/// go by count(), and write nothing into inputs and broadcasts, which may be the caller's own
/// memory (Staging::shared). A plain value; run it as often as wanted.
class GANTRY_API PipelineJob {
 public:
  /// Receives a partial result; called in the order of chunks, by the thread that called
  /// run_pipeline(). A chunk that several threads computed left several partial results: `chunk`
  /// has its steps with the first of them, and none with the others. An error ends the run.
  using Fold = std::function<Result<void>(ConstByteSpan partial, const Chunk& chunk)>;
  /// The launch for a chunk of so many steps.
  using Range = std::function<LaunchRange(std::uint64_t steps)>;

  /// Each run builds the source for its device.
  PipelineJob(ProgramSource source, std::string kernel, std::uint64_t steps)
      : steps_(steps), source_(std::move(source)), kernel_name_(std::move(kernel)) {}
  /// A kernel that is built already, for one device.
  PipelineJob(Kernel kernel, std::uint64_t steps) : steps_(steps), kernel_(std::move(kernel)) {}

  /// An array that is read, `step_bytes` of it for each step, and beside them what `halo` says.
  PipelineJob& input(PipelineSource from, Bytes step_bytes, Halo halo = {});
  /// An array that is written, `step_bytes` of it for each step.
  PipelineJob& output(PipelineSink to, Bytes step_bytes);
  /// An array that is read and then overwritten with what the kernel left in the same buffer.
  PipelineJob& in_place(ByteSpan memory, Bytes step_bytes);
  /// The same for a sink with further properties: PipelineSink::registered(), block().
  PipelineJob& in_place(PipelineSink memory, Bytes step_bytes);
  /// An array that each chunk sees whole; it is copied to the device once.
  PipelineJob& broadcast(PipelineSource from);
  /// Each chunk's kernel gets `bytes` bytes of value `initial` and adds its part of the result to
  /// them. On `cpu` each thread has such bytes of its own (DeviceFacts::partials): a kernel that
  /// adds needs no atomics, and parts that nobody touched are not folded. So `initial` must be
  /// what changes nothing when it is folded.
  PipelineJob& reduction(Bytes bytes, Fold fold, std::byte initial = {});
  /// The same value for every chunk.
  PipelineJob& value(const KernelArgument& value);
  /// Local memory of each work group, undefined at first.
  PipelineJob& local(Bytes bytes);
  PipelineJob& count();  ///< std::uint64_t (`ulong`): steps of the chunk.
  PipelineJob& first();  ///< std::uint64_t: number of the chunk's first step in the job.
  /// Sets the launch of a chunk. Default: LaunchRange::linear(steps).
  PipelineJob& range(Range range);

  // Arrays of elements, `per_step` of them a step. Takes spans of any extent, and vectors, arrays
  // and their like that are no temporaries, since they are not copied.
  template <PipelineArray Array>
  PipelineJob& input(Array&& data, std::uint64_t per_step = 1, Halo halo = {}) {
    const std::span elements(std::forward<Array>(data));
    return input(PipelineSource::memory(std::as_bytes(elements)),
                 bytes_of<typename decltype(elements)::element_type>(per_step), halo);
  }
  /// An array that is written.
  template <PipelineArray Array>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Array>>>)
  PipelineJob& output(Array&& data, std::uint64_t per_step = 1) {
    const std::span elements(std::forward<Array>(data));
    return output(PipelineSink::memory(std::as_writable_bytes(elements)),
                  bytes_of<typename decltype(elements)::element_type>(per_step));
  }
  /// An array that each chunk sees whole.
  template <PipelineArray Array>
  PipelineJob& broadcast(Array&& data) {
    return broadcast(PipelineSource::memory(std::as_bytes(std::span(std::forward<Array>(data)))));
  }

  /// One argument of the kernel, in the order of the calls above.
  struct Argument {
    /// What it is.
    enum class Kind : std::uint8_t {
      input,      ///< Copied in, chunk by chunk.
      output,     ///< Copied out, chunk by chunk.
      in_place,   ///< Both.
      broadcast,  ///< Copied in, once.
      reduction,  ///< Folded, chunk by chunk.
      value,      ///< The same for every chunk; or local memory.
      count,      ///< Steps of the chunk.
      first       ///< The chunk's first step.
    };
    Kind kind = Kind::value;     ///< It says which of the next fields count.
    PipelineSource source = {};  ///< Of what is copied in.
    PipelineSink sink = {};      ///< Of what is copied out.
    Bytes step_bytes = 0;        ///< For a reduction: all of its bytes.
    Halo halo = {};              ///< Of an input.
    Fold fold = {};              ///< Of a reduction.
    std::byte initial{};         ///< Of a reduction: each byte of it before the kernel.
    std::optional<KernelArgument> value = {};  ///< Of a value, or local memory.

    /// True if it is copied in chunk by chunk.
    [[nodiscard]] bool reads() const noexcept {
      return kind == Kind::input || kind == Kind::in_place;
    }
    /// True if it is copied out chunk by chunk.
    [[nodiscard]] bool writes() const noexcept {
      return kind == Kind::output || kind == Kind::in_place;
    }
  };
  /// The steps of the whole job.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  /// In the order of the calls that added them.
  [[nodiscard]] const std::vector<Argument>& arguments() const noexcept { return arguments_; }
  /// What range() has set, for a chunk of so many steps.
  [[nodiscard]] LaunchRange range_for(std::uint64_t steps) const;
  /// The same job with a kernel that is built already.
  [[nodiscard]] PipelineJob with_kernel(Kernel kernel) const;
  /// Replaces the fold of the reduction that is argument `index`.
  PipelineJob& set_fold(std::size_t index, Fold fold);
  /// Errors: as Device::build() and Program::kernel().
  [[nodiscard]] Result<Kernel> kernel_on(Device& device) const;

 private:
  // Saturates at the largest value. No memory has that size, so it is refused.
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

// ---- how it is run -------------------------------------------------------------------------

/// How chunks follow each other.
enum class PipelineMode : std::uint8_t {
  automatic,          ///< Overlapped; the first chunks determine chunk size, depth and staging.
  sequential,         ///< Chunk by chunk: copy-in, launch, blocking copy-out; one queue, pageable.
  sequential_pinned,  ///< The same, with all memory registered in place.
  overlapped_pageable,  ///< Three queues, memory as it is.
  overlapped_pinned,    ///< Three queues, all memory registered in place.
  unbatched,            ///< One chunk; `device_full` or `too_large` when the device cannot hold it.
};
[[nodiscard]] GANTRY_API std::string_view to_string(PipelineMode mode) noexcept;

/// How the device accesses memory.
enum class Staging : std::uint8_t {
  automatic,   ///< Chosen for each array.
  direct,      ///< The device copies from and to memory as it is.
  ring,        ///< Through a small ring of host memory, registered where that pays.
  in_place,    ///< All of it is registered during the run.
  registered,  ///< Registered before: PipelineSource::registered(). Not to be asked for.
  /// In place, without copies: the device computes on the memory itself. `automatic` runs choose it
  /// where the device's memory is the host's (DeviceFacts::in_place_alignment), but not with a time
  /// limit (an abandoned kernel would go on in the caller's memory), not with a copier, and not for
  /// an output on another argument's input. Kernels then find memory as the caller aligned it.
  /// Chunks that begin where the device does not accept them, and those that a halo makes of
  /// several pieces, are copied. Touching memory that is not there is a signal.
  shared,
};
[[nodiscard]] GANTRY_API std::string_view to_string(Staging staging) noexcept;

/// How a job is cut and where its bytes rest; what is not set is chosen.
struct PipelineOptions {
  PipelineMode mode = PipelineMode::automatic;  ///< How chunks follow each other.
  std::uint64_t chunk_steps = 0;                ///< 0: automatic.
  unsigned depth = 0;                           ///< Chunks in flight; 0: automatic. At most 64.
  Staging staging = Staging::automatic;  ///< For memory; files and readers always have a ring.
  /// How often this memory will be run through this device; decides what registering it may cost.
  std::uint64_t uses = 1;
  Bytes device_bytes = 0;  ///< Most device memory to take; 0: most of what is free.
  /// Copies between user memory and the ring; then memory that is not there is an error, not a
  /// signal. Null: memcpy().
  std::shared_ptr<Engine> copier = {};
  /// Reads and writes files. Null: what the device has (Device::file_io()), or pread() and pwrite()
  /// if it has none; the plan says which.
  std::shared_ptr<FileIo> file_io = {};
  Deadline deadline = Deadline::never();  ///< Deadline of the whole run.
  /// The longest time without the end of a chunk; zero: no limit. Then, or at the deadline, kernels
  /// are told to stop. If something has not ended after as long again (at least a second) the
  /// device is abandoned. Reads and writes of files that the kernel does not give back by then are
  /// left to it, with the memory that they use; such a write may land later.
  std::chrono::nanoseconds stall_limit{};
  bool keep_timeline = false;  ///< PipelineReport::timeline
};

/// What was chosen, and why.
struct GANTRY_API PipelinePlan {
  PipelineMode mode = PipelineMode::automatic;  ///< PipelineOptions::mode.
  std::uint64_t chunk_steps = 0;                ///< Of a full chunk.
  std::uint64_t chunks = 0;           ///< Chunks of the whole job, the measured ones included.
  unsigned depth = 0;                 ///< Chunks in flight.
  Bytes device_bytes = 0;             ///< Device memory that the ring takes.
  Bytes ring_bytes = 0;               ///< Host memory for staging.
  std::vector<Staging> staging = {};  ///< For each argument; `automatic`: no array.
  /// From the measured chunks: the least time of a chunk, and the time of each further step.
  struct Stream {
    std::chrono::nanoseconds start{};  ///< The least time.
    double ns_per_step = 0;            ///< Of a further step.
  };
  Stream copy_in, compute, copy_out;     ///< Zero if nothing was measured.
  std::chrono::nanoseconds predicted{};  ///< For all chunks; zero if nothing was measured.
  std::vector<std::string> reasons;      ///< Why; one line each.

  /// The same for people, some lines.
  [[nodiscard]] std::string text() const;
};

/// When a chunk was in which stage. Copies of several arrays count as one.
struct ChunkTimes {
  Chunk chunk;                              ///< Whose times they are.
  DeviceTiming copy_in, compute, copy_out;  ///< On the device's queues.
  /// The host's part: filling the ring before copy_in; taking results out of it, and folding, after
  /// copy_out. Zero if there is nothing to do.
  DeviceTiming stage_in, stage_out;
};

/// How a run went.
struct GANTRY_API PipelineReport {
  PipelinePlan plan;                       ///< What was chosen.
  std::chrono::nanoseconds elapsed{};      ///< From the call to its return.
  std::chrono::nanoseconds setup{};        ///< Before the first chunk: building, allocating,
                                           ///< registering.
  std::chrono::nanoseconds registering{};  ///< Part of `setup`.
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};  ///< Each stream's work, in sum.
  Bytes bytes_in = 0;                ///< Of inputs with their halos, and of copied broadcasts.
  Bytes bytes_out = 0;               ///< Of outputs; arrays in place count in both.
  unsigned shrinks = 0;              ///< How often full memory made chunks smaller.
  std::vector<ChunkTimes> timeline;  ///< With PipelineOptions::keep_timeline.

  /// How it was cut, and why.
  [[nodiscard]] const PipelinePlan& explain() const noexcept { return plan; }
};

// ---- the calls -----------------------------------------------------------------------------

/// Sends the job's data through the device, chunk by chunk, with several in flight. Blocks; uses
/// one more thread. Results are those of a loop over all steps, whatever the chunks.
///
/// Errors before anything is done: `invalid_argument` (nothing to do, sizes that do not correspond,
/// an output that overlaps another array otherwise than step for step), those of Device::build().
/// Later errors begin with the chunk ("chunk 7 (steps 700 to 799): ..."): `device_full` when not
/// even a chunk of one step fits, `device_lost`, `kernel_fault`, `timed_out`, those of sources,
/// sinks and folds (`system` for a file that was cut short). On return the queues are drained and
/// the buffers freed. Chunks before the named one have landed; results of later ones are undefined.
[[nodiscard]] GANTRY_API Result<PipelineReport> run_pipeline(Device& device, const PipelineJob& job,
                                                             const PipelineOptions& options = {});

/// One device's run in run_pipeline() of several devices.
struct PipelineShare {
  std::string device;       ///< DeviceFacts::name.
  std::uint64_t first = 0;  ///< The first of its steps.
  std::uint64_t steps = 0;  ///< How many it ran.
  PipelineReport report;    ///< Of this device's run.
};

/// How a run on several devices went.
struct PipelineTeamReport {
  std::chrono::nanoseconds elapsed{};  ///< From the call to its return.
  std::vector<double> rates;           ///< For each device: steps in a nanosecond, in the sample.
  std::vector<PipelineShare> shares;   ///< The sample's shares, then those of the rest.
};

/// Runs one job on several devices at once, each with threads of its own. A sixteenth of the steps
/// goes first, in equal shares, and tells the rates by which the rest is split. Sources and sinks
/// must be memory, and the job must have its program as source, so that each device builds its own.
/// Reductions are folded when all have ended, in the order of the steps.
///
/// Errors: as run_pipeline() of one device, with the device's name before the chunk; `unsupported`
/// for ends that are not memory. Devices that did not fail complete what they have begun. Of
/// several failures the one of the first steps is returned.
[[nodiscard]] GANTRY_API Result<PipelineTeamReport> run_pipeline(
    std::span<Device* const> devices, const PipelineJob& job, const PipelineOptions& options = {});

}  // namespace gantry
