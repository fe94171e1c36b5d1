#pragma once  // gantry/pipeline/pipeline.hpp: one large job as chunks through a device: copy-in,
              // compute and copy-out of different chunks at the same time.

#include <functional>
#include <gantry/device/device.hpp>
#include <gantry/memory.hpp>
#include <optional>
#include <ranges>

namespace gantry {

/// A part of a job: so many steps from `first` on. What a step is the job's author says: an
/// element, a row, a block of a file.
struct Chunk {
  std::uint64_t index = 0;
  std::uint64_t first = 0;
  std::uint64_t steps = 0;
};

// ---- where data comes from and goes to -----------------------------------------------------

/// What a job reads. A plain value. Memory stays valid and unchanged until the run has returned.
class GANTRY_API PipelineSource {
 public:
  using Read = std::function<Result<void>(std::uint64_t offset, ByteSpan to)>;

  [[nodiscard]] static PipelineSource memory(ConstByteSpan bytes);
  /// That the caller registered with the device's registrar, or that came from its like.
  [[nodiscard]] static PipelineSource registered(ConstByteSpan bytes);
  /// Holds the block. Its pool knowing the device's registrar makes it registered.
  [[nodiscard]] static PipelineSource block(const Block& block);
  /// `size` bytes of it from `offset` on; 0: to its end. It is opened now; the device's way to
  /// files reads it (PipelineOptions::file_io). A file that turns out shorter later is an error of
  /// the chunk that misses something. Errors: those of open().
  [[nodiscard]] static Result<PipelineSource> file(const std::string& path,
                                                   std::uint64_t offset = 0,
                                                   std::uint64_t size = 0);
  /// Called by one thread at a time, not always with rising offsets (halos). An error ends the run.
  [[nodiscard]] static PipelineSource reader(std::uint64_t size, Read read);
  /// Of run_stage(): segment `index` of each message.
  [[nodiscard]] static PipelineSource message(std::size_t segment = 0);

  enum class Kind : std::uint8_t { memory, reader, message, file };
  Kind kind = Kind::memory;
  std::uint64_t size = 0;
  ConstByteSpan bytes = {};                     ///< Of memory.
  bool is_registered = false;                   ///< Of memory.
  Read read = {};                               ///< Of readers.
  std::shared_ptr<const OpenFile> opened = {};  ///< Of files.
  std::size_t segment = 0;                      ///< Of messages.
  std::shared_ptr<Block> held = {};
  std::string name = {};                      ///< For messages.
  std::array<std::uint64_t, 3> file_range{};  ///< Device, inode, offset: who aliases whom.
};

/// What a job writes. A plain value.
class GANTRY_API PipelineSink {
 public:
  using Write = std::function<Result<void>(std::uint64_t offset, ConstByteSpan from)>;

  [[nodiscard]] static PipelineSink memory(ByteSpan bytes);
  [[nodiscard]] static PipelineSink registered(ByteSpan bytes);  ///< As PipelineSource's.
  [[nodiscard]] static PipelineSink block(const Block& block);
  /// Made, if need be, with `size` bytes from `offset` on; what is there already stays. Errors:
  /// those of open() and ftruncate().
  [[nodiscard]] static Result<PipelineSink> file(const std::string& path, std::uint64_t size,
                                                 std::uint64_t offset = 0);
  /// Called by the thread that called run_pipeline(), with offsets that rise without gaps.
  [[nodiscard]] static PipelineSink writer(std::uint64_t size, Write write);
  /// Of run_stage(): the message that is sent.
  [[nodiscard]] static PipelineSink message();

  enum class Kind : std::uint8_t { memory, writer, message, file };
  Kind kind = Kind::memory;
  std::uint64_t size = 0;
  ByteSpan bytes = {};
  bool is_registered = false;
  Write write = {};                             ///< Of writers.
  std::shared_ptr<const OpenFile> opened = {};  ///< Of files.
  std::shared_ptr<Block> held = {};
  std::string name = {};
  std::array<std::uint64_t, 3> file_range{};
};

// ---- the job -------------------------------------------------------------------------------

/// What stands beyond the first and the last step of an input that has a halo.
enum class Edge : std::uint8_t {
  zero,   ///< Bytes 0.
  clamp,  ///< The first, the last step again and again.
  wrap,   ///< The other end: step -1 is the last one.
};

/// So many steps of the neighbourhood come with each chunk: its buffer begins `before` steps ahead
/// of the chunk's first and ends `after` steps behind its last, so that kernels need no case for
/// the borders.
struct Halo {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  Edge edge = Edge::zero;
};

/// Elements one behind the other, in memory that is not the argument's own.
template <class Array>
concept PipelineArray =
    std::ranges::contiguous_range<Array> && std::ranges::borrowed_range<Array> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Array>>;

/// What is to be computed: a kernel, and its arguments in the order in which they are added here.
/// An array's slice for a chunk of n steps is n times its bytes per step: arrays of different
/// element and total sizes correspond by that. Every buffer is as large as the largest chunk asks
/// for: kernels go by count(), and write nothing into inputs and broadcasts, which may be the
/// caller's own memory (Staging::shared). A plain value; run it as often as wanted.
class GANTRY_API PipelineJob {
 public:
  /// Told what a chunk's kernel left in its partial result; chunks come in order, in the thread
  /// that called run_pipeline(). An error ends the run.
  using Fold = std::function<Result<void>(ConstByteSpan partial, const Chunk& chunk)>;
  using Range = std::function<LaunchRange(std::uint64_t steps)>;

  /// Built for the device by each run.
  PipelineJob(ProgramSource source, std::string kernel, std::uint64_t steps)
      : steps_(steps), source_(std::move(source)), kernel_name_(std::move(kernel)) {}
  /// Built already, for one device.
  PipelineJob(Kernel kernel, std::uint64_t steps) : steps_(steps), kernel_(std::move(kernel)) {}

  PipelineJob& input(PipelineSource from, Bytes step_bytes, Halo halo = {});
  PipelineJob& output(PipelineSink to, Bytes step_bytes);
  /// Read, and overwritten with what the kernel left in the same buffer.
  PipelineJob& in_place(ByteSpan memory, Bytes step_bytes);
  /// The same of memory of which there is more to say: PipelineSink::registered(), block().
  PipelineJob& in_place(PipelineSink memory, Bytes step_bytes);
  /// Whole, to each chunk: copied to the device once.
  PipelineJob& broadcast(PipelineSource from);
  /// Each chunk's kernel finds `bytes` bytes of value `initial` and leaves its part of the result.
  PipelineJob& reduction(Bytes bytes, Fold fold, std::byte initial = {});
  /// The same value for every chunk.
  PipelineJob& value(const KernelArgument& value);
  PipelineJob& local(Bytes bytes);
  PipelineJob& count();  ///< std::uint64_t (`ulong`): the chunk's steps.
  PipelineJob& first();  ///< std::uint64_t: the number of the chunk's first step in the job.
  /// The launch for a chunk; LaunchRange::linear(steps) if this is not called.
  PipelineJob& range(Range range);

  // Of elements, `per_step` of them a step: spans of any extent; vectors, arrays and their like
  // that are no temporaries, since they are not copied.
  template <PipelineArray Array>
  PipelineJob& input(Array&& data, std::uint64_t per_step = 1, Halo halo = {}) {
    const std::span elements(std::forward<Array>(data));
    return input(PipelineSource::memory(std::as_bytes(elements)),
                 bytes_of<typename decltype(elements)::element_type>(per_step), halo);
  }
  template <PipelineArray Array>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Array>>>)
  PipelineJob& output(Array&& data, std::uint64_t per_step = 1) {
    const std::span elements(std::forward<Array>(data));
    return output(PipelineSink::memory(std::as_writable_bytes(elements)),
                  bytes_of<typename decltype(elements)::element_type>(per_step));
  }
  template <PipelineArray Array>
  PipelineJob& broadcast(Array&& data) {
    return broadcast(PipelineSource::memory(std::as_bytes(std::span(std::forward<Array>(data)))));
  }

  struct Argument {
    enum class Kind : std::uint8_t {
      input,
      output,
      in_place,
      broadcast,
      reduction,
      value,
      count,
      first
    };
    Kind kind = Kind::value;
    PipelineSource source = {};
    PipelineSink sink = {};
    Bytes step_bytes = 0;  ///< Of a reduction: all of it.
    Halo halo = {};
    Fold fold = {};
    std::byte initial{};
    std::optional<KernelArgument> value = {};

    [[nodiscard]] bool reads() const noexcept {
      return kind == Kind::input || kind == Kind::in_place;
    }
    [[nodiscard]] bool writes() const noexcept {
      return kind == Kind::output || kind == Kind::in_place;
    }
  };
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] const std::vector<Argument>& arguments() const noexcept { return arguments_; }
  [[nodiscard]] LaunchRange range_for(std::uint64_t steps) const;
  /// The same job, of a kernel that is built already.
  [[nodiscard]] PipelineJob with_kernel(Kernel kernel) const;
  /// Another fold for the reduction that is argument `index`.
  PipelineJob& set_fold(std::size_t index, Fold fold);
  /// Errors: as Device::build() and Program::kernel().
  [[nodiscard]] Result<Kernel> kernel_on(Device& device) const;

 private:
  // The most there is for more than 64 bits count: no memory has that size, so it is refused.
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

enum class PipelineMode : std::uint8_t {
  automatic,          ///< overlapped; chunks, depth and staging by what the first chunks show.
  sequential,         ///< Chunk by chunk: copy-in, launch, blocking copy-out; one queue, pageable.
  sequential_pinned,  ///< The same, with all memory registered in place.
  overlapped_pageable,  ///< Three queues, memory as it is.
  overlapped_pinned,    ///< Three queues, all memory registered in place.
  unbatched,            ///< One chunk; `device_full` or `too_large` when the device cannot hold it.
};
[[nodiscard]] GANTRY_API std::string_view to_string(PipelineMode mode) noexcept;

/// How memory and device meet.
enum class Staging : std::uint8_t {
  automatic,
  direct,      ///< The device copies from and to memory as it is.
  ring,        ///< By way of a small ring of host memory, registered where that pays.
  in_place,    ///< All of it is registered for the time of the run.
  registered,  ///< It was already. Not to be asked for: PipelineSource::registered() says it.
  /// In place, no copies: the device computes on the memory itself. Where its memory is the host's
  /// (DeviceFacts::in_place_alignment) and runs are `automatic` it is what is chosen, but not with
  /// a time limit (a kernel that was given up would go on in the caller's memory), not with a
  /// copier, not for an output on another argument's input. Kernels then find memory as the caller
  /// aligned it, chunks that begin elsewhere than the device wants are copied, as are those that a
  /// halo makes of several pieces, and memory that is not there is a signal.
  shared,
};
[[nodiscard]] GANTRY_API std::string_view to_string(Staging staging) noexcept;

struct PipelineOptions {
  PipelineMode mode = PipelineMode::automatic;
  std::uint64_t chunk_steps = 0;         ///< 0: chosen.
  unsigned depth = 0;                    ///< Chunks in flight; 0: chosen. At most 64.
  Staging staging = Staging::automatic;  ///< Of memory; files and readers always have a ring.
  /// How often this memory will be run through this device: what registering it may cost.
  std::uint64_t uses = 1;
  Bytes device_bytes = 0;  ///< Most device memory to take; 0: most of what is free.
  /// Copies between user memory and the ring; memory that is not there is then an error, not a
  /// signal. Null: memcpy().
  std::shared_ptr<Engine> copier = {};
  /// Reads and writes files. Null: what the device has (Device::file_io()), or pread() and pwrite()
  /// where that cannot be had; the plan says which.
  std::shared_ptr<FileIo> file_io = {};
  Deadline deadline = Deadline::never();  ///< Of the whole run.
  /// No chunk may end for so long; zero: any time. Then, or at the deadline, kernels are told to
  /// stop; what has not ended after as long again (a second at least) costs the device: it is
  /// abandoned. Reads and writes of files that the kernel does not give back by then are left to
  /// it, with the memory that they use; such a write may land later.
  std::chrono::nanoseconds stall_limit{};
  bool keep_timeline = false;  ///< PipelineReport::timeline
};

/// What was chosen, and why.
struct GANTRY_API PipelinePlan {
  PipelineMode mode = PipelineMode::automatic;
  std::uint64_t chunk_steps = 0;
  std::uint64_t chunks = 0;  ///< Of the whole job, those that were measured included.
  unsigned depth = 0;
  Bytes device_bytes = 0;             ///< What the ring takes of the device.
  Bytes ring_bytes = 0;               ///< Host memory for staging.
  std::vector<Staging> staging = {};  ///< Of each argument; `automatic`: no array.
  /// Of the measured chunks: what a chunk takes at least, and what each further step does.
  struct Stream {
    std::chrono::nanoseconds start{};
    double ns_per_step = 0;
  };
  Stream copy_in, compute, copy_out;  ///< Zero where nothing was measured.
  std::chrono::nanoseconds predicted{};
  std::vector<std::string> reasons;

  [[nodiscard]] std::string text() const;
};

/// When a chunk was where. Copies of several arrays count as one.
struct ChunkTimes {
  Chunk chunk;
  DeviceTiming copy_in, compute, copy_out;
  /// The host's part: filling the ring before copy_in; taking results out of it, and folding, after
  /// copy_out. Zero where there is nothing to do.
  DeviceTiming stage_in, stage_out;
};

struct GANTRY_API PipelineReport {
  PipelinePlan plan;
  std::chrono::nanoseconds elapsed{};  ///< From the call to its return.
  std::chrono::nanoseconds setup{};    ///< Of that, before the first chunk: building, allocating,
                                       ///< registering.
  std::chrono::nanoseconds registering{};                     ///< Of setup.
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};  ///< Each stream at work, in sum.
  Bytes bytes_in = 0;
  Bytes bytes_out = 0;
  unsigned shrinks = 0;              ///< How often chunks were made smaller since memory was full.
  std::vector<ChunkTimes> timeline;  ///< With PipelineOptions::keep_timeline.

  /// The longest stream's part of the time after setup: 1 is as good as it gets.
  [[nodiscard]] double overlap_efficiency() const noexcept;
  [[nodiscard]] const PipelinePlan& explain() const noexcept { return plan; }
};

// ---- the calls -----------------------------------------------------------------------------

/// Sends the job's data through the device, chunk by chunk, with several under way. Blocks; uses
/// one more thread. Results are those of a loop over all steps, whatever the chunks.
///
/// Errors. Before anything is done: `invalid_argument` (nothing to do, sizes that do not
/// correspond, an output that overlaps another array otherwise than step for step), what
/// Device::build() says. Later ones begin with the chunk ("chunk 7 (steps 700 to 799): ..."):
/// `device_full` when not even a chunk of one step fits, `device_lost`, `kernel_fault`,
/// `timed_out`, what sources, sinks and folds say (`system` for a file that was cut short).
/// When it returns the queues are drained and the buffers back; chunks before the named one have
/// landed, what is in the place of later ones is undefined.
[[nodiscard]] GANTRY_API Result<PipelineReport> run_pipeline(Device& device, const PipelineJob& job,
                                                             const PipelineOptions& options = {});

/// A run of one device's in run_pipeline() of several.
struct PipelineShare {
  std::string device;
  std::uint64_t first = 0;
  std::uint64_t steps = 0;
  PipelineReport report;
};

struct PipelineTeamReport {
  std::chrono::nanoseconds elapsed{};
  std::vector<double> rates;          ///< Of each device: steps in a nanosecond, of the sample.
  std::vector<PipelineShare> shares;  ///< Those of the sample, then those of the rest.
};

/// One job on several devices at once, each with threads of its own. A sixteenth of the steps goes
/// first, in equal shares, and tells the rates by which the rest is split. Ends are memory; the job
/// has its program as source, so that each device builds its own. Reductions are folded when all
/// have ended, in the order of the steps.
///
/// Errors: as run_pipeline() of one device, with the device's name before the chunk; `unsupported`
/// for ends that are no memory. Devices that did not fail end what they have begun. Of several
/// failures the one of the first steps.
[[nodiscard]] GANTRY_API Result<PipelineTeamReport> run_pipeline(
    std::span<Device* const> devices, const PipelineJob& job, const PipelineOptions& options = {});

}  // namespace gantry
