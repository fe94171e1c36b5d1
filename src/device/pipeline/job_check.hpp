#pragma once  // pipeline/job_check.hpp: refuses jobs that can never work before anything is done;
              // which bytes form a chunk's buffer.

#include <gantry/pipeline.hpp>
#include <vector>

namespace gantry {

/// A run of bytes of a chunk's buffer that come from one place.
struct ChunkExtent {
  enum class Kind : std::uint8_t {
    source,
    zero,
    first_step,  ///< Repeated.
    last_step,   ///< Repeated.
  };
  Kind kind = Kind::source;
  Bytes at = 0;            ///< Offset in the buffer.
  std::uint64_t from = 0;  ///< Offset in the source.
  Bytes size = 0;
};

/// The extents of an array that is read, in the order of the buffer, without gaps.
[[nodiscard]] std::vector<ChunkExtent> extents_of(const PipelineJob::Argument& array,
                                                  const Chunk& chunk, std::uint64_t steps);

/// Buffer size for chunks of that many steps; 0: no array. For a broadcast: all of it. Saturates.
[[nodiscard]] Bytes buffer_bytes(const PipelineJob::Argument& array, std::uint64_t steps) noexcept;

/// "chunk 7 (steps 700 to 799)"
[[nodiscard]] std::string to_string(const Chunk& chunk);

/// Errors: `invalid_argument`, with the number of the argument and the figures.
[[nodiscard]] Result<void> check_job(const PipelineJob& job, const PipelineOptions& options);

/// The same for run_stage().
[[nodiscard]] Result<void> check_stage(const PipelineJob& job, const PipelineOptions& options);

/// True if an output lies where an input does: what was written cannot be read again.
[[nodiscard]] bool overwrites_inputs(const PipelineJob& job) noexcept;

/// True if no other argument reads what this one writes, or writes what it reads.
[[nodiscard]] bool is_apart(const PipelineJob& job, const PipelineJob::Argument& array) noexcept;

}  // namespace gantry
