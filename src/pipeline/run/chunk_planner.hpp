#pragma once  // pipeline/run/chunk_planner.hpp: how large chunks are, and how many are under way.

#include <gantry/pipeline/pipeline.hpp>

#include "pipeline/run/chunk_ring.hpp"

namespace gantry {

/// How long chunks of two sizes took: the least of what was seen of each.
struct MeasuredChunk {
  std::uint64_t steps = 0;
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};
  std::chrono::nanoseconds all{};  ///< As the host saw it, from the first call to the results.
};

/// What bears on the choice, besides what was measured.
struct PlanInput {
  std::uint64_t steps = 0;        ///< Left.
  Bytes step_bytes = 0;           ///< Device memory of a step, in a slot.
  Bytes fixed_bytes = 0;          ///< What a slot takes besides: halos, partial results.
  Bytes device_bytes = 0;         ///< Most to take.
  double making_ns_per_byte = 0;  ///< Of a slot: allocating, touching, registering its ring.
  std::uint64_t fewest = 1;       ///< Steps of a chunk: below it halos would be most of it.
  bool is_staged_in = false;
  bool is_staged_out = false;
};

struct ChunkChoice {
  std::uint64_t chunk_steps = 1;
  unsigned depth = 1;
};

/// Most steps that a slot can have when there are `depth` of them; 1 at least.
[[nodiscard]] std::uint64_t most_steps(const PlanInput& input, unsigned depth) noexcept;

/// Fills the streams, the prediction and the reasons in.
[[nodiscard]] ChunkChoice choose_by_measure(const PlanInput& input, const MeasuredChunk& small,
                                            const MeasuredChunk& large, PipelinePlan& plan);

/// Without a measurement: by sizes alone.
[[nodiscard]] ChunkChoice default_chunks(const PlanInput& input, PipelinePlan& plan);

}  // namespace gantry
