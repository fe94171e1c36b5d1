#pragma once  // pipeline/job/extents.hpp: which bytes of an array form a chunk's buffer.

#include <gantry/pipeline/pipeline.hpp>
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

}  // namespace gantry
