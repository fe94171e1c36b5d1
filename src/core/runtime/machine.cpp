#include <hwloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <gantry/runtime.hpp>
#include <limits>

#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/system_memory.hpp"
#include "core/runtime/cpu_quota.hpp"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kTopologyRoom = Bytes{64} << 20;

// hwloc ends the process if memory runs out while it looks.
bool has_room_for_topology() noexcept {
  void* const at =
      ::mmap(nullptr, kTopologyRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at != MAP_FAILED && ::munmap(at, kTopologyRoom) == 0;
}

/// hwloc's view of the machine, for the length of a scope; null when it cannot be had.
class Topology {
 public:
  Topology() {
    if (!has_room_for_topology()) return;
    if (hwloc_topology_init(&topology_) != 0) return;
    if (hwloc_topology_load(topology_) == 0) return;
    hwloc_topology_destroy(topology_);
    topology_ = nullptr;
  }
  ~Topology() {
    if (topology_ != nullptr) hwloc_topology_destroy(topology_);
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  [[nodiscard]] hwloc_topology_t get() const noexcept { return topology_; }

 private:
  hwloc_topology_t topology_ = nullptr;
};

unsigned count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const int count = hwloc_get_nbobjs_by_type(topology, type);
  return count > 0 ? static_cast<unsigned>(count) : 0;
}

// The model sits at the package, or at the machine where packages are not told apart.
std::string cpu_model(hwloc_topology_t topology) {
  for (hwloc_obj* const object :
       {hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), hwloc_get_root_obj(topology)}) {
    const char* model = object ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr;
    if (model != nullptr) return model;
  }
  return {};
}

std::vector<CacheFacts> caches(hwloc_topology_t topology) {
  std::vector<CacheFacts> found;
  for (const auto type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                          HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
    hwloc_obj* const first = hwloc_get_obj_by_type(topology, type, 0);
    if (first == nullptr) continue;
    const auto& cache = first->attr->cache;
    found.push_back({cache.depth, static_cast<Bytes>(cache.size), count_of(topology, type)});
  }
  return found;
}

void read_topology(MachineFacts& facts) {
  const Topology topology;
  if (topology.get() == nullptr) return;
  facts.cpu_model = cpu_model(topology.get());
  facts.numa_nodes = count_of(topology.get(), HWLOC_OBJ_NUMANODE);
  facts.caches = caches(topology.get());
}

void read_cpus(MachineFacts& facts) {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  facts.cpus_online = online > 0 ? static_cast<unsigned>(online) : 0;
  facts.cpus = usable_cpus();
  facts.cpu_quota = cpu_quota();
}

Bytes memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<Bytes>::max() : limit.rlim_cur;
}

void read_memory(MachineFacts& facts) {
  const SystemMemory memory = system_memory();
  facts.memory_bytes = memory.total;
  facts.memory_free_bytes = memory.available;
  facts.memlock_limit_bytes = memlock_limit();
}

std::uint64_t number_in(const fs::path& path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

// Folders are named "hugepages-2048kB".
std::vector<HugePageFacts> huge_pages() {
  constexpr std::string_view kPrefix = "hugepages-";
  std::vector<HugePageFacts> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/sys/kernel/mm/hugepages", none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    Bytes kib = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), kib);
    found.push_back({kib << 10, number_in(entry.path() / "nr_hugepages"),
                     number_in(entry.path() / "free_hugepages")});
  }
  std::ranges::sort(found, {}, &HugePageFacts::page_bytes);
  return found;
}

// "always [madvise] never": the chosen one stands in brackets.
std::string chosen_in(const char* path) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  return {};
}

void read_huge_pages(MachineFacts& facts) {
  facts.huge_pages = huge_pages();
  facts.transparent_huge_pages = chosen_in("/sys/kernel/mm/transparent_hugepage/enabled");
  facts.transparent_huge_pages_shared =
      chosen_in("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

std::string kernel() {
  utsname names{};
  if (::uname(&names) != 0) return {};
  return std::string(names.sysname) + " " + names.release;
}

}  // namespace

MachineFacts probe_machine() {
  MachineFacts facts;
  read_topology(facts);
  read_cpus(facts);
  read_memory(facts);
  read_huge_pages(facts);
  facts.kernel = kernel();
  return facts;
}

}  // namespace gantry
