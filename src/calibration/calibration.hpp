#pragma once  // calibration/calibration.hpp: what each engine costs on this machine, measured.

#include <gantry/engine/policy.hpp>

namespace gantry {

struct MeasureOptions {
  bool quick = false;      ///< Under a second instead of at most 20.
  Bytes last_level = 0;    ///< Of the cache that the CPUs share; 0: not told.
  unsigned sharers = 1;    ///< CPUs that share it.
  Bytes memory_limit = 0;  ///< What it may use for a while; 0: as much as it likes.
  /// Told what begins and which part of the whole is done; false: stop.
  std::function<bool(std::string_view, double)> on_step;
};

/// Medians of interleaved rounds. On a machine that is too slow or busy for its time the largest
/// sizes are left out. `machine` is left empty. Engines but the first that open no lane are left
/// out. Errors: `interrupted`, `out_of_memory`, and an engine's own.
[[nodiscard]] Result<Calibration> measure_calibration(
    std::span<const std::shared_ptr<Engine>> engines, const MeasureOptions& options);

}  // namespace gantry
