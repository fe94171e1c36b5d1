#include "core/base/os/system_memory.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace gantry {
namespace {

std::optional<Bytes> number_in(const std::string& path) {
  std::ifstream file(path);
  Bytes value = 0;
  if (file >> value) return value;  // "max" is no number: no limit
  return std::nullopt;
}

// The limits of every group from ours up count; /proc/self/cgroup's v2 line is "0::/path".
void apply_control_groups(SystemMemory& memory) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::")) continue;
    std::string group = line.substr(3);
    for (;;) {
      const std::string folder = "/sys/fs/cgroup" + (group == "/" ? std::string() : group);
      if (const auto limit = number_in(folder + "/memory.max")) {
        const Bytes used = number_in(folder + "/memory.current").value_or(0);
        memory.total = std::min(memory.total, *limit);
        memory.available = std::min(memory.available, *limit > used ? *limit - used : 0);
      }
      if (group.size() <= 1) return;
      const auto slash = group.rfind('/');
      group = slash == 0 || slash == std::string::npos ? "/" : group.substr(0, slash);
    }
  }
}

}  // namespace

SystemMemory system_memory() {
  SystemMemory memory;
  struct sysinfo facts{};
  // Used when no file can be opened; it leaves out what caches could give back.
  if (::sysinfo(&facts) == 0) {
    memory.total = Bytes{facts.totalram} * facts.mem_unit;
    memory.available = Bytes{facts.freeram} * facts.mem_unit;
  }
  std::ifstream file("/proc/meminfo");
  std::string word;
  Bytes kib = 0;
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    word = line.substr(0, colon);
    kib = std::strtoull(line.c_str() + colon + 1, nullptr, 10);
    if (word == "MemTotal") memory.total = kib << 10;
    if (word == "MemAvailable") memory.available = kib << 10;
  }
  apply_control_groups(memory);
  return memory;
}

}  // namespace gantry
