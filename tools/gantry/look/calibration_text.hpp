#pragma once  // tools/gantry/look/calibration_text.hpp: prints a calibration for people and for
              // programs.

#include <gantry/runtime.hpp>
#include <nlohmann/json_fwd.hpp>

namespace gantry::cli {

[[nodiscard]] nlohmann::json calibration_json(const CalibrationStatus& status);

/// Its source and its place, in a few lines.
[[nodiscard]] std::string calibration_facts_text(const CalibrationStatus& status);
/// A table of sizes by engines, with every `step`-th size; below it one of reshapes, a line for
/// each class, at one size.
[[nodiscard]] std::string costs_text(const Calibration& calibration, std::size_t step = 1);
/// "thread beats inline from 4 MiB when queued", a line each.
[[nodiscard]] std::string break_even_text(const Calibration& calibration);

}  // namespace gantry::cli
