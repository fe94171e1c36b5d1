#pragma once  // pipeline/run/zero_copy.hpp: which memory a device computes on where it lies,
              // without copies.

#include "pipeline/run/chunk_ring.hpp"

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

}  // namespace gantry
