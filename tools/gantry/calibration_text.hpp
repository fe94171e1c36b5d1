#pragma once  // tools/gantry/calibration_text.hpp: a calibration as a person or a program reads it.

#include <gantry/runtime.hpp>
#include <nlohmann/json.hpp>

namespace gantry::cli {

[[nodiscard]] nlohmann::json calibration_json(const CalibrationStatus& status);

/// Where it comes from and is kept, in a few lines.
[[nodiscard]] std::string calibration_facts_text(const CalibrationStatus& status);
/// Sizes by engines; `step`: every how many-th size.
[[nodiscard]] std::string costs_text(const Calibration& calibration, std::size_t step = 1);
/// "thread beats inline from 4 MiB when queued", a line each.
[[nodiscard]] std::string break_even_text(const Calibration& calibration);

}  // namespace gantry::cli
