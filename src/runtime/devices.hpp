#pragma once  // runtime/devices.hpp: finds and opens every kind of device.

#include <gantry/device.hpp>
#include <gantry/runtime.hpp>

namespace gantry {

/// Opens a device by a name such as "cpu", "opencl" (its first), "opencl:1". `copier` copies where
/// the device lets the CPU do it. Errors: `not_found` with the kinds that exist; those of the
/// backend.
[[nodiscard]] Result<std::shared_ptr<Device>> open_device(std::string_view name,
                                                          const std::shared_ptr<Engine>& copier);

/// One line for each device, and for each kind that has none.
[[nodiscard]] std::vector<EngineStatus> device_statuses();

}  // namespace gantry
