#include "core/runtime/machine_key.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gantry/runtime.hpp>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/base/os/numa_nodes.hpp"
#include "core/runtime/cpu_quota.hpp"

namespace gantry {
namespace {

// The first processor's lines are enough, and the kernel generates only what is read.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name") && !line.starts_with("CPU part")) continue;
    const auto colon = line.find(": ");
    return colon == std::string::npos ? std::string() : line.substr(colon + 2);
  }
  return "unknown";
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Cache size of the first processor, as the kernel reports it; 0 if it does not.
Bytes kernels_cache_bytes(int level) {
  for (int i = 0;; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string found = line_of(folder + "level");
    if (found.empty()) return 0;
    if (found == std::to_string(level) && line_of(folder + "type") != "Instruction")
      return std::strtoull(line_of(folder + "size").c_str(), nullptr, 10) << 10;  // "512K"
  }
}

// The C library asks the processor, which answers on x86-64 but not on arm64.
Bytes cache_bytes(int level) {
  constexpr std::array kNames{_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE,
                              _SC_LEVEL4_CACHE_SIZE};
  if (::sysconf(kNames.front()) <= 0) return kernels_cache_bytes(level);
  return static_cast<Bytes>(
      std::max(0L, ::sysconf(kNames.at(static_cast<std::size_t>(level - 1)))));
}

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? std::string(names.release) : std::string("unknown");
}

std::string hypervisor() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kIsGuest = 1u << 31;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kIsGuest) == 0) return "none";
  __cpuid(0x40000000, a, b, c, d);
  std::array<char, 13> name{};
  std::memcpy(name.data(), &b, 4);
  std::memcpy(name.data() + 4, &c, 4);
  std::memcpy(name.data() + 8, &d, 4);
  return name.data();
#else
  return "unknown";
#endif
}

constexpr std::string_view build() {
#if defined(__SANITIZE_THREAD__)
  return "tsan";
#elif defined(__SANITIZE_ADDRESS__)
  return "asan";
#elif defined(NDEBUG)
  return "release";
#else
  return "debug";
#endif
}

// Unprintable characters would break the file's lines.
std::string clean(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~' || c == ';'; }, '?');
  return text;
}

}  // namespace

LastLevelCache last_level_cache() {
  for (const int level : {4, 3, 2})
    if (const Bytes bytes = cache_bytes(level); bytes > 0) return {bytes, usable_cpus()};
  return {0, usable_cpus()};
}

std::string machine_key() {
  return clean(fmt::format("cpu {}", cpu_model())) +
         fmt::format("; cpus {} quota {:.3g}", usable_cpus(), cpu_quota()) +
         fmt::format("; caches {} {} {}", cache_bytes(1), cache_bytes(2), cache_bytes(3)) +
         "; kernel " + clean(kernel_release()) + "; hypervisor " + clean(hypervisor()) +
         fmt::format("; gantry {} {}", version(), build());
}

}  // namespace gantry
