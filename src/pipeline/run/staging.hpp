#pragma once  // pipeline/run/staging.hpp: how each array of a run meets the device.

#include "pipeline/run/zero_copy.hpp"

namespace gantry {

/// What a run knows of registering: whether it pays, who does it, what it costs.
struct Registering {
  std::shared_ptr<Registrar> registrar;  ///< Null: nothing is registered.
  std::string why_not;
  bool is_wanted = false;  ///< By hand: without it the run fails.
  std::chrono::nanoseconds spent{};
};

/// Asks the device for its registrar if the options or the device's facts want one. Errors: that of
/// registrar() when it was asked for by hand.
[[nodiscard]] Result<Registering> make_registering(Device& device, const PipelineOptions& options);

/// The staging of every array before anything is measured. What memory is to be registered in place
/// is, and so are the repeated steps of clamped halos. `files`: reads those that are. Errors: what
/// registering and sources say.
[[nodiscard]] Result<std::vector<RunArray>> bind_arrays(
    const PipelineJob& job, const PipelineOptions& options, const DeviceFacts& facts,
    const ZeroCopy& zero_copy, Registering& registering, FileLane* files, PipelinePlan& plan);

/// Once the rates are known: memory that has been staged by a ring is registered in place when that
/// is the better way for as many uses as were promised. `ns_per_byte`: of registering.
[[nodiscard]] Result<void> reconsider(std::vector<RunArray>& arrays, const PipelineOptions& options,
                                      double ns_per_byte, Registering& registering,
                                      PipelinePlan& plan);

}  // namespace gantry
