#pragma once  // bench/engine/reshape/peers.hpp: what other systems make of a conversion.

#include <gantry/types.hpp>

#include "../../peers/reshape_task.hpp"

namespace gantry::bench {

/// Another system that converts, in one thread.
struct ReshapePeer {
  const char* subject;
  const char* library;
  const char* variant;
  const char* packages;  ///< What has to be installed for it to be built.
  bool pictures;         ///< That is what it converts; else floats.
  /// How far its numbers may be from ours, where it takes another way to them; by type.
  double tolerance_f32, tolerance_half;
};
inline constexpr ReshapePeer kReshapePeers[] = {
    {"onednn/reorder", "gantry-peer-onednn.so", "", "libdnnl-dev", false, 0, 0},
    {"opencv", "gantry-peer-opencv.so", "passes", "libopencv-core-dev, libopencv-imgproc-dev", true,
     1e-5, 0.02},
    {"opencv/split", "gantry-peer-opencv.so", "split", "libopencv-core-dev, libopencv-imgproc-dev",
     true, 1e-5, 0.02}};

/// Opens its library, and has it say how it does the task. Errors: `not_found`: it was not built;
/// `unsupported`: it cannot do that.
[[nodiscard]] Result<Reshaping> reshaping_of(const ReshapePeer& peer, const ReshapeTask& task);

}  // namespace gantry::bench
