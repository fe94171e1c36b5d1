#pragma once  // pipeline/staging.hpp: how each argument's memory goes to the device and back, and
              // which the device computes on where it lies.

#include "device/pipeline/chunk_ring.hpp"

namespace gantry {

/// What a run may do without copies, and why not more.
struct ZeroCopy {
  Bytes alignment = 0;          ///< Alignment of memory that the device accepts; 0: none, all is
                                ///< copied.
  bool is_for_callers = false;  ///< Also the caller's memory; else only what the run stages.
  std::string why_not = {};
};

/// Errors: `unsupported` when it was asked for and the device cannot.
[[nodiscard]] Result<ZeroCopy> zero_copy_of(const DeviceFacts& facts,
                                            const PipelineOptions& options);

/// Empty if the device may compute on this argument's memory; else the reason.
[[nodiscard]] std::string why_not_shared(const PipelineJob& job, const PipelineJob::Argument& array,
                                         Bytes alignment);

/// Where chunks must begin so that they can be shared: at multiples of `grain`. Chunks to which a
/// halo brings something that is no run of the source lie before `head` or from `tail` on.
struct ChunkCut {
  std::uint64_t grain = 1;
  std::uint64_t head = 0;
  std::uint64_t tail = 0;  ///< Equal to the job's steps: there is none.
};
[[nodiscard]] ChunkCut cut_of(std::span<const RunArray> arrays, std::uint64_t steps,
                              Bytes alignment);

/// The caller's memory that is this chunk's buffer; empty if there is none, or if it begins where
/// the device does not accept it.
[[nodiscard]] ByteSpan shared_memory(const PipelineJob::Argument& array, const Chunk& chunk,
                                     std::uint64_t steps, Bytes alignment);

/// The same for a broadcast.
[[nodiscard]] ByteSpan shared_whole(const PipelineSource& source) noexcept;

/// The same for a stage's message, of which `part` is the input.
[[nodiscard]] ByteSpan shared_message(const PipelineJob::Argument& input, const Chunk& chunk,
                                      ConstByteSpan part, Bytes alignment);

[[nodiscard]] bool is_aligned(const std::byte* at, Bytes alignment) noexcept;

/// Whether registering pays, who registers, and what it costs.
struct Registering {
  std::shared_ptr<Registrar> registrar;  ///< Null: nothing is registered.
  std::string why_not;
  bool is_wanted = false;  ///< Asked for by hand: without it the run fails.
  std::chrono::nanoseconds spent{};
};

/// Asks the device for its registrar if the options or the device's facts want one. Errors: those
/// of registrar() when it was asked for by hand.
[[nodiscard]] Result<Registering> make_registering(Device& device, const PipelineOptions& options);

/// Chooses the staging of every array before anything is measured. Registers memory that is to be
/// registered in place, and reads the repeated steps of clamped halos. `files` reads those of
/// files. Errors: those of registering and of sources.
[[nodiscard]] Result<std::vector<RunArray>> bind_arrays(
    const PipelineJob& job, const PipelineOptions& options, const DeviceFacts& facts,
    const ZeroCopy& zero_copy, Registering& registering, FileLane* files, PipelinePlan& plan);

/// The arrays that bind_arrays() gave a ring because nobody had said how, and that may go in place
/// or as they are instead.
[[nodiscard]] std::vector<RunArray*> free_to_choose(std::span<RunArray> arrays,
                                                    const PipelineOptions& options,
                                                    const Registering& registering);
/// Their memory.
[[nodiscard]] Bytes bytes_of(std::span<RunArray* const> arrays) noexcept;
/// Registers them in place; those that cannot be get the ring.
void register_all(std::span<RunArray* const> arrays, Registering& registering, PipelinePlan& plan);

}  // namespace gantry
