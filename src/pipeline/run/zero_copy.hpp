#pragma once  // pipeline/run/zero_copy.hpp: what a device computes on where it lies, without
              // copies.

#include "pipeline/run/chunk_ring.hpp"

namespace gantry {

/// What a run may do without copies, and why not more.
struct ZeroCopy {
  Bytes alignment = 0;          ///< Of memory that the device takes; 0: none, all is copied.
  bool is_for_callers = false;  ///< The caller's memory, too; else what the run stages.
  std::string why_not = {};
};

/// Errors: `unsupported` when it was asked for and the device cannot.
[[nodiscard]] Result<ZeroCopy> zero_copy_of(const DeviceFacts& facts,
                                            const PipelineOptions& options);

/// Nothing: the device may compute on this argument's memory. Else why not.
[[nodiscard]] std::string why_not_shared(const PipelineJob& job, const PipelineJob::Argument& array,
                                         Bytes alignment);

/// Where chunks begin so that they can be shared: at multiples of `grain`; and those to which a
/// halo brings what is no run of the source lie before `head` or from `tail` on.
struct ChunkCut {
  std::uint64_t grain = 1;
  std::uint64_t head = 0;
  std::uint64_t tail = 0;  ///< The job's steps: there is none.
};
[[nodiscard]] ChunkCut cut_of(std::span<const RunArray> arrays, std::uint64_t steps,
                              Bytes alignment);

/// The caller's memory that is this chunk's buffer; empty: it is none, or begins where the device
/// does not take it.
[[nodiscard]] ByteSpan shared_memory(const PipelineJob::Argument& array, const Chunk& chunk,
                                     std::uint64_t steps, Bytes alignment);

/// The same of a broadcast.
[[nodiscard]] ByteSpan shared_whole(const PipelineSource& source) noexcept;

/// The same of a stage's message, of which `part` is the input.
[[nodiscard]] ByteSpan shared_message(const PipelineJob::Argument& input, const Chunk& chunk,
                                      ConstByteSpan part, Bytes alignment);

[[nodiscard]] bool is_aligned(const std::byte* at, Bytes alignment) noexcept;

}  // namespace gantry
