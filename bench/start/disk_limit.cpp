#include "disk_limit.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace gantry::bench {
namespace {

/// Where groups are made, and what a group is told: cgroup v1 and v2.
struct Controller {
  const char* folder;
  const char* file;
  const char* before_rate;
};
constexpr std::array kControllers = {
    Controller{"/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", ""},
    Controller{"/sys/fs/cgroup", "io.max", "rbps="}};

Error unsupported(std::string why, std::string hint = {}) {
  return {Code::unsupported, "the disk cannot be held: " + std::move(why), std::move(hint)};
}

/// Writes that by one call, as these files want it.
Result<void> tell(const std::string& path, const std::string& text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) return Unexpected(system_error(path));
  if (::write(file.get(), text.data(), text.size()) < 0) return Unexpected(system_error(path));
  return {};
}

/// "254:0": the disk, whole, on which a folder lies.
Result<std::string> disk_of(const std::string& folder) {
  struct stat facts{};
  if (::stat(folder.c_str(), &facts) != 0) return Unexpected(system_error(folder));
  const std::string known =
      fmt::format("/sys/dev/block/{}:{}", major(facts.st_dev), minor(facts.st_dev));
  const bool is_part = std::filesystem::exists(known + "/partition");
  std::ifstream in(known + (is_part ? "/../dev" : "/dev"));
  std::string disk;
  if (in >> disk) return disk;
  return Unexpected(unsupported(folder + " lies on no block device of its own"));
}

Result<void> hold(const Controller& controller, const std::string& group, const std::string& disk,
                  Bytes bytes_per_second) {
  if (::mkdir(group.c_str(), 0755) != 0)
    return Unexpected(unsupported(system_error(group).message, "it takes root and a cgroup"));
  const std::string file = fmt::format("{}/{}", group, controller.file);
  const auto told =
      tell(file, fmt::format("{} {}{}", disk, controller.before_rate, bytes_per_second));
  if (told) return {};
  ::rmdir(group.c_str());
  return Unexpected(unsupported(told.error().message,
                                "echo +io >/sys/fs/cgroup/cgroup.subtree_control, with cgroup v2"));
}

}  // namespace

Result<DiskLimit> DiskLimit::create(const std::string& folder, Bytes bytes_per_second) {
  const auto disk = disk_of(folder);
  if (!disk) return Unexpected(disk.error());
  for (const Controller& controller : kControllers) {
    if (!std::filesystem::exists(fmt::format("{}/cgroup.procs", controller.folder))) continue;
    const std::string group = fmt::format("{}/gantry-bench-{}", controller.folder, ::getpid());
    const auto held = hold(controller, group, *disk, bytes_per_second);
    if (!held) return Unexpected(held.error());
    return DiskLimit(group);
  }
  return Unexpected(unsupported("no blkio and no cgroup v2 is mounted below /sys/fs/cgroup"));
}

DiskLimit::~DiskLimit() {
  if (!group_.empty()) ::rmdir(group_.c_str());
}

Result<void> DiskLimit::join() const {
  return tell(group_ + "/cgroup.procs", std::to_string(::getpid()));
}

}  // namespace gantry::bench
