#pragma once  // bench/overlap/device_contest.hpp: products and copies of one device.

#include "../support/report/report.hpp"
#include "settings.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

/// Each device and type is three cases: a product in pieces, beside copies, and with an input that
/// streams from host memory. Devices that are not there, and types that they lack, are skipped with
/// the reason. Errors: `interrupted`; a wrong byte.
[[nodiscard]] Result<void> measure_devices(const Settings& settings, int interrupt_descriptor,
                                           Report& report);

/// Losses of pieces and of neighbours, and the streamed product beside the longer of its parts.
void add_device_findings(Report& report);
/// The subject beside which the others of a case are set.
[[nodiscard]] std::string reference_on_device(const std::string& case_name);

}  // namespace gantry::bench
