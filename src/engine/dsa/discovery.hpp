#pragma once  // engine/dsa/discovery.hpp: which work queues this machine has, and what is wrong.

#include <vector>

#include "engine/dsa/device_queue.hpp"

namespace gantry::dsa {

/// As EngineStatus of <gantry/runtime.hpp> has them.
struct DsaStatus {
  bool usable = false;
  std::string why;
  std::string mend;
};

/// The queues that programs may use: enabled, of type user, SVA on; shared ones first, then by
/// size. `root` is put before /sys and /dev. Errors, each with its cure: `unsupported` (no device,
/// no driver, SVA off), `not_found` (none is enabled, or only the kernel's).
[[nodiscard]] Result<std::vector<QueueFacts>> find_queues(const std::string& root = "");

/// Opens the first of them that can be. Errors: as find_queues(), else of the first that failed.
[[nodiscard]] Result<std::unique_ptr<WorkQueue>> open_any_queue(
    const std::string& root = "",
    const std::shared_ptr<DeviceCalls>& calls = std::make_shared<DeviceCalls>());

/// Opens one and closes it again; so before an engine is made, since a dedicated queue is open
/// once.
[[nodiscard]] DsaStatus probe(
    const std::string& root = "",
    const std::shared_ptr<DeviceCalls>& calls = std::make_shared<DeviceCalls>());
/// What the probe says of a queue that can be used.
[[nodiscard]] std::string describe(const QueueTraits& traits);

}  // namespace gantry::dsa
