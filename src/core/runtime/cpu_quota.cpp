#include "core/runtime/cpu_quota.hpp"

#include <algorithm>
#include <fstream>

namespace gantry {
namespace {

double tighter(double a, double b) {
  return a <= 0 ? b : b <= 0 ? a : std::min(a, b);
}

// "max 100000" or "50000 100000": version 2.
double quota_in_cpu_max(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}

// -1 means unlimited: version 1.
double quota_in_cfs_files(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The limits of every group from ours up count; a container may see only the top ones.
double tightest(const std::string& root, std::string group, double (*read)(const std::string&)) {
  double quota = read(root);
  while (group.size() > 1) {
    quota = tighter(quota, read(root + group));
    group.resize(std::min(group.rfind('/'), group.size()));
  }
  return quota;
}

bool has_cpu_controller(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

double cpu_quota(const ControlGroupPaths& paths) {
  std::ifstream file(paths.membership);
  double quota = 0;
  for (std::string line; std::getline(file, line);) {  // ID:CONTROLLERS:PATH
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty())
      quota = tighter(quota, tightest(paths.root, group, quota_in_cpu_max));
    else if (has_cpu_controller(controllers))
      quota = tighter(quota, tightest(paths.root + "/cpu", group, quota_in_cfs_files));
  }
  return quota;
}

}  // namespace gantry
