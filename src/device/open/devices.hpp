#pragma once  // open/devices.hpp: devices by name, for Runtime.

#include <gantry/runtime.hpp>

namespace gantry {

/// Runtime::open_device() and Runtime::devices().
[[nodiscard]] Result<std::shared_ptr<Device>> open_device_named(
    std::string_view name, const std::shared_ptr<Engine>& copier);
[[nodiscard]] std::vector<EngineStatus> list_devices();

}  // namespace gantry
