#pragma once  // tests/support/dsa/model_queue.hpp: the device model as a work queue.

#include "device/dsa/work_queue.hpp"
#include "support/dsa/device_model.hpp"

namespace gantry::dsa {

/// Submits to `model` by one of its entrances; all that comes of it is simulated. Errors:
/// `invalid_argument`, a portal that a queue of its kind does not have.
[[nodiscard]] Result<std::unique_ptr<WorkQueue>> make_model_queue(
    std::shared_ptr<DeviceModel> model, Entrance entrance);

}  // namespace gantry::dsa
