#pragma once  // calibration/calibration_text.hpp: a calibration as the text of its file.

#include <gantry/engine.hpp>

namespace gantry {

/// docs/formats/calibration.md
[[nodiscard]] std::string write_calibration(const Calibration& calibration);
/// Trusts nothing: every number must be in a sane range, sizes must rise, nothing may be missing or
/// left over. Errors: `invalid_argument`, with the line.
[[nodiscard]] Result<Calibration> read_calibration(std::string_view text);

inline constexpr Bytes kMaxCalibrationText = Bytes{64} << 10;

}  // namespace gantry
