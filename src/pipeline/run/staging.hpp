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

/// Once the rates are known: memory that was staged by a ring is registered in place if that is
/// better for as many uses as were promised. `ns_per_byte`: time of registering.
[[nodiscard]] Result<void> reconsider(std::vector<RunArray>& arrays, const PipelineOptions& options,
                                      double ns_per_byte, Registering& registering,
                                      PipelinePlan& plan);

}  // namespace gantry
