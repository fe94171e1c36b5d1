#pragma once  // pipeline/run/staging.hpp: chooses how the device accesses each array of a run.

#include "pipeline/run/zero_copy.hpp"

namespace gantry {

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
