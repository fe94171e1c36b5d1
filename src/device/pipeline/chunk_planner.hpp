#pragma once  // pipeline/chunk_planner.hpp: chooses the size of chunks and their number in flight.

#include <gantry/pipeline.hpp>

#include "device/pipeline/chunk_ring.hpp"

namespace gantry {

/// The least times that were measured for chunks of one size.
struct MeasuredChunk {
  std::uint64_t steps = 0;
  std::chrono::nanoseconds copy_in{}, compute{}, copy_out{};
  std::chrono::nanoseconds all{};  ///< As the host saw it, from the first call to the results.
  /// The host's own copies, to and from a ring.
  std::chrono::nanoseconds stage_in{}, stage_out{};
};

/// As far as 64 bits count.
[[nodiscard]] std::chrono::nanoseconds time_from(double ns) noexcept;

/// What the choice depends on, besides the measurement.
struct PlanInput {
  std::uint64_t steps = 0;        ///< Steps that are left.
  Bytes step_bytes = 0;           ///< Device memory of a step, in a slot.
  Bytes fixed_bytes = 0;          ///< Further memory of a slot: halos, partial results.
  Bytes device_bytes = 0;         ///< Most device memory to take.
  double making_ns_per_byte = 0;  ///< To make a slot: allocating, touching, registering its ring.
  std::uint64_t fewest = 1;       ///< Least steps of a chunk: below it halos would be most of it.
  bool is_staged_in = false;
  bool is_staged_out = false;
};

struct ChunkChoice {
  std::uint64_t chunk_steps = 1;
  unsigned depth = 1;
};

/// Most steps that a slot can have when there are `depth` slots; at least 1.
[[nodiscard]] std::uint64_t most_steps(const PlanInput& input, unsigned depth) noexcept;

/// Fills in the streams, the prediction and the reasons.
[[nodiscard]] ChunkChoice choose_by_measure(const PlanInput& input, const MeasuredChunk& small,
                                            const MeasuredChunk& large, PipelinePlan& plan);

/// Chooses without a measurement, by sizes alone.
[[nodiscard]] ChunkChoice default_chunks(const PlanInput& input, PipelinePlan& plan);

}  // namespace gantry
