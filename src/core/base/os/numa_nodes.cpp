#include "core/base/os/numa_nodes.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <string>

#include "core/base/result.hpp"

namespace gantry {
namespace {

constexpr int kMostNumber = 1 << 16;  // most CPUs and nodes: more than any kernel counts
constexpr std::size_t kMostCpus = std::size_t{1} << 16;

std::string line_of(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

struct FreeSet {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};

}  // namespace

std::vector<int> numbers_in(std::string_view list) {
  std::vector<int> numbers;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at != end) {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    int last = first;
    if (read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || first < 0 || last >= kMostNumber) break;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    at = read.ptr;
    if (at == end) continue;
    if (*at != ',') break;
    ++at;
  }
  return numbers;
}

std::vector<NodeCpus> numa_nodes() {
  constexpr std::string_view kFolder = "/sys/devices/system/node";
  std::vector<NodeCpus> nodes;
  for (const int node : numbers_in(line_of(fmt::format("{}/online", kFolder))))
    nodes.push_back({node, numbers_in(line_of(fmt::format("{}/node{}/cpulist", kFolder, node)))});
  return nodes;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  // The kernel refuses a set that is smaller than its own.
  for (std::size_t count = CPU_SETSIZE; count <= kMostCpus; count *= 2) {
    const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(count));
    if (set == nullptr) throw std::bad_alloc();
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, set.get());
    if (::sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    for (std::size_t cpu = 0; cpu < count; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(static_cast<int>(cpu));
    break;
  }
  return cpus;
}

unsigned usable_cpus() noexcept {
  const auto cpus = guarded([]() -> Result<std::vector<int>> { return allowed_cpus(); });
  if (cpus && !cpus->empty()) return static_cast<unsigned>(cpus->size());
  return static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

void bind_this_thread(std::span<const int> cpus) noexcept {
  const int last = cpus.empty() ? -1 : *std::ranges::max_element(cpus);
  if (last < 0) return;
  const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(last + 1));
  if (set == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(last + 1);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus)
    if (cpu >= 0) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  ::sched_setaffinity(0, bytes, set.get());
}

}  // namespace gantry
