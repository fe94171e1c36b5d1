#pragma once  // calibration/calibration.hpp: measures what each engine costs on this machine.

#include <gantry/engine.hpp>

namespace gantry {

struct MeasureOptions {
  bool quick = false;      ///< Takes less than a second instead of up to 20.
  Bytes last_level = 0;    ///< Size of the cache that the CPUs share; 0: unknown.
  unsigned sharers = 1;    ///< CPUs that share it.
  Bytes memory_limit = 0;  ///< Most memory to use meanwhile; 0: no limit.
  /// Called with what begins and the part of the whole that is done. Return false to stop.
  std::function<bool(std::string_view, double)> on_step;
  /// A plan of that class with about so many bytes of destination. Null: reshapes are not measured.
  Result<ReshapePlan> (*sample_reshape)(ReshapeClass kind, Bytes destination_bytes) = nullptr;
};

/// Returns medians of interleaved rounds, with `machine` empty. Leaves out the largest sizes on a
/// machine that is too slow or busy to measure them in time, and engines, except the first, that
/// open no lane. Errors: `interrupted`, `out_of_memory`, and an engine's own.
[[nodiscard]] Result<Calibration> measure_calibration(
    std::span<const std::shared_ptr<Engine>> engines, const MeasureOptions& options);

}  // namespace gantry
