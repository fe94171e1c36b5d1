#pragma once  // bench/support/run/calibration.hpp: the policy knows the engines before a turn is
              // timed.

#include <gantry/types.hpp>

namespace gantry::bench {

/// Measures the engines quickly where nothing is known of them, unless $GANTRY_CALIBRATE is `off`.
/// The policy would measure within the first large move that it sees; that is no part of a turn. Of
/// what it finds engines make use that are made after it.
[[nodiscard]] Result<void> calibrate_if_needed();

}  // namespace gantry::bench
