#pragma once  // calibration/calibration_text.hpp: a calibration as the text that is kept in a file.

#include <gantry/engine/policy.hpp>

namespace gantry {

/// docs/formats/calibration.md
[[nodiscard]] std::string write_calibration(const Calibration& calibration);
/// Errors: `invalid_argument`, with the line. Takes nothing on trust: every number is in a sane
/// range, sizes rise, nothing is missing or left over.
[[nodiscard]] Result<Calibration> read_calibration(std::string_view text);

inline constexpr Bytes kMaxCalibrationText = Bytes{64} << 10;

}  // namespace gantry
