#pragma once  // runtime/devices.hpp: every kind of device, and how it is found and opened.

#include <gantry/device/device.hpp>
#include <gantry/runtime.hpp>

namespace gantry {

/// By a name such as "cpu", "opencl" (its first), "opencl:1". `copier` copies where the device lets
/// the CPU do it. Errors: `not_found` with the kinds there are; those of the backend.
[[nodiscard]] Result<std::shared_ptr<Device>> open_device(std::string_view name,
                                                          const std::shared_ptr<Engine>& copier);

/// One line for each device, and for each kind that has none.
[[nodiscard]] std::vector<EngineStatus> device_statuses();

}  // namespace gantry
