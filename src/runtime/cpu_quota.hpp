#pragma once  // runtime/cpu_quota.hpp: how many CPUs the control group lets this process use.

#include <string>

namespace gantry {

/// Where the kernel tells; others than the default are for tests.
struct ControlGroupPaths {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// CPUs' worth of time a period, the tightest limit from our group up; 0: no limit, or not told.
/// Reads version 2, and version 1's `cpu` controller.
[[nodiscard]] double cpu_quota(const ControlGroupPaths& paths = {});

}  // namespace gantry
