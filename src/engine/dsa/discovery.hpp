#pragma once  // engine/dsa/discovery.hpp: the work queues of this machine, and why one cannot be
              // used.

#include <vector>

#include "engine/dsa/device_queue.hpp"

namespace gantry::dsa {

/// The fields of EngineStatus.
struct DsaStatus {
  bool usable = false;
  std::string why;
  std::string mend;
};

/// Finds the queues that programs may use: enabled, of type user, SVA on; shared ones first, then
/// by size. `root` is put before /sys and /dev. Errors, each with its cure: `unsupported` (no
/// device, no driver, SVA off), `not_found` (none is enabled, or only the kernel's).
[[nodiscard]] Result<std::vector<QueueFacts>> find_queues(const std::string& root = "");

/// Opens the first that can be opened. Errors: as find_queues(), else of the first that failed.
[[nodiscard]] Result<std::unique_ptr<WorkQueue>> open_any_queue(
    const std::string& root = "",
    const std::shared_ptr<DeviceCalls>& calls = std::make_shared<DeviceCalls>());

/// Opens one and closes it again. Call it before an engine is made, since a dedicated queue can be
/// open only once.
[[nodiscard]] DsaStatus probe(
    const std::string& root = "",
    const std::shared_ptr<DeviceCalls>& calls = std::make_shared<DeviceCalls>());
/// What the probe says about a usable queue.
[[nodiscard]] std::string describe(const QueueTraits& traits);

}  // namespace gantry::dsa
