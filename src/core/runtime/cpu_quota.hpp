#pragma once  // runtime/cpu_quota.hpp: the CPUs that the control group lets this process use.

#include <string>

namespace gantry {

/// The kernel's files; tests use others.
struct ControlGroupPaths {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// The CPU time a period, in CPUs: the tightest limit from our group up; 0: no limit, or unknown.
/// Reads version 2, and version 1's `cpu` controller.
[[nodiscard]] double cpu_quota(const ControlGroupPaths& paths = {});

}  // namespace gantry
