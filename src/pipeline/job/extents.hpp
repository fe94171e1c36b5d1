#pragma once  // pipeline/job/extents.hpp: which bytes of an array make a chunk's buffer.

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
  Bytes at = 0;            ///< In the buffer.
  std::uint64_t from = 0;  ///< In the source.
  Bytes size = 0;
};

/// Of an array that is read. In the order of the buffer, without gaps.
[[nodiscard]] std::vector<ChunkExtent> extents_of(const PipelineJob::Argument& array,
                                                  const Chunk& chunk, std::uint64_t steps);

/// What a buffer for chunks of so many steps needs; 0: no array. Of a broadcast: all of it.
/// Saturates.
[[nodiscard]] Bytes buffer_bytes(const PipelineJob::Argument& array, std::uint64_t steps) noexcept;

/// "chunk 7 (steps 700 to 799)"
[[nodiscard]] std::string to_string(const Chunk& chunk);

}  // namespace gantry
