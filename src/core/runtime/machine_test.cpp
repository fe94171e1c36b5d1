#include <gmock/gmock.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <gantry/runtime.hpp>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "core/runtime/cpu_quota.hpp"
#include "core/runtime/machine_key.hpp"

namespace gantry {
namespace {

std::string text_in(const std::filesystem::path& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}
/// "32K", "1024 kB" and the like, in bytes.
Bytes bytes_of(const std::string& text) {
  std::istringstream in(text);
  Bytes value = 0;
  char unit = 'B';
  in >> value >> unit;
  return unit == 'K' || unit == 'k' ? value << 10 : unit == 'M' ? value << 20 : value;
}
/// The value behind "name:" in a file of /proc.
std::string named(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return line.substr(line.find(':') + 2);
  return {};
}

bool is_below_limit_of_group(Bytes bytes) {
  for (const char* const file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (text_in(file) == std::to_string(bytes)) return true;
  return std::filesystem::exists("/proc/self/cgroup") &&
         text_in("/proc/self/cgroup") != "0::/";  // a limit of a group within
}

// Each beside what the kernel says of it in another place.
TEST(Machine, FactsAreTheKernels) {
  const MachineFacts facts = probe_machine();
  cpu_set_t mine;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
  EXPECT_EQ(facts.cpus, static_cast<unsigned>(CPU_COUNT(&mine)));
  unsigned online = 0;
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line);)
    online += line.starts_with("cpu") && line[3] != ' ';
  EXPECT_EQ(facts.cpus_online, online);
  unsigned nodes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node"))
    nodes += std::filesystem::exists(entry.path() / "cpulist");
  EXPECT_EQ(facts.numa_nodes, nodes);
  const Bytes memory = bytes_of(named("/proc/meminfo", "MemTotal:"));
  EXPECT_LE(facts.memory_bytes, memory);
  EXPECT_TRUE(facts.memory_bytes == memory || is_below_limit_of_group(facts.memory_bytes))
      << facts.memory_bytes << " of " << memory;
  EXPECT_GT(facts.memory_free_bytes, 0u);
  EXPECT_LE(facts.memory_free_bytes, facts.memory_bytes);
  EXPECT_EQ(facts.kernel, "Linux " + text_in("/proc/sys/kernel/osrelease"));
  const std::string model = named("/proc/cpuinfo", "model name");
  EXPECT_EQ(facts.cpu_model, model.empty() ? facts.cpu_model : model);
  const std::string locked = named("/proc/self/limits", "Max locked memory");
  EXPECT_TRUE(facts.memlock_limit_bytes == std::numeric_limits<Bytes>::max()
                  ? locked.find("unlimited") != locked.npos
                  : locked.find(std::to_string(facts.memlock_limit_bytes)) != locked.npos)
      << locked;
  const std::string huge = text_in("/sys/kernel/mm/transparent_hugepage/enabled");
  EXPECT_NE(huge.find("[" + facts.transparent_huge_pages + "]"), huge.npos) << huge;
}

TEST(Machine, CachesAreTheKernels) {
  const std::filesystem::path folder = "/sys/devices/system/cpu/cpu0/cache";
  std::vector<std::pair<unsigned, Bytes>> wanted, told;
  for (int i = 0; std::filesystem::exists(folder / ("index" + std::to_string(i))); ++i) {
    const auto index = folder / ("index" + std::to_string(i));
    if (text_in(index / "type") != "Instruction")
      wanted.emplace_back(bytes_of(text_in(index / "level")), bytes_of(text_in(index / "size")));
  }
  if (wanted.empty()) GTEST_SKIP() << "this kernel tells no caches";
  const MachineFacts facts = probe_machine();
  for (const CacheFacts& cache : facts.caches) {
    told.emplace_back(cache.level, cache.bytes);
    EXPECT_GE(cache.count, 1u);
    EXPECT_LE(cache.count, facts.cpus_online);
  }
  EXPECT_EQ(told, wanted);
}

// Also where the C library does not know the caches: by the kernel.
TEST(Machine, TheLastLevelCacheIsKnownWhereTheKernelTellsIt) {
  if (!std::filesystem::exists("/sys/devices/system/cpu/cpu0/cache/index2/size"))
    GTEST_SKIP() << "this kernel tells no caches";
  EXPECT_GT(last_level_cache().bytes, 0u);
  EXPECT_EQ(machine_key().find("; caches 0 0 0;"), std::string::npos) << machine_key();
}

TEST(Machine, HugePagesAreTheKernels) {
  std::vector<std::string> wanted, told;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", none))
    wanted.push_back(entry.path().filename().string() + " of " +
                     text_in(entry.path() / "nr_hugepages"));
  for (const auto& size : probe_machine().huge_pages) {
    told.push_back("hugepages-" + std::to_string(size.page_bytes >> 10) + "kB of " +
                   std::to_string(size.total));
    EXPECT_LE(size.free, size.total);
  }
  EXPECT_THAT(told, testing::UnorderedElementsAreArray(wanted));
}

/// A made-up tree of control groups.
class CpuQuota : public ::testing::Test {
 protected:
  CpuQuota() : root_(std::filesystem::temp_directory_path() / "gantry-quota-XXXXXX") {
    std::string path = root_;
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  ~CpuQuota() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    const auto path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] double quota() const { return cpu_quota({root_ / "membership", root_ / "tree"}); }

 private:
  std::filesystem::path root_;
};

TEST_F(CpuQuota, NothingToldMeansNoLimit) {
  EXPECT_EQ(quota(), 0.0);
}

TEST_F(CpuQuota, MaxMeansNoLimit) {
  write("membership", "0::/a\n");
  write("tree/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0.0);
}

TEST_F(CpuQuota, TheTightestGroupAboveCounts) {
  write("membership", "0::/a/b/c\n");
  write("tree/a/cpu.max", "150000 100000\n");
  write("tree/a/b/cpu.max", "max 100000\n");
  write("tree/a/b/c/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 1.5);
}

TEST_F(CpuQuota, AContainerSeesItsLimitAtTheTop) {
  write("membership", "0::/not/visible/here\n");
  write("tree/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 0.5);
}

TEST_F(CpuQuota, ReadsVersionOne) {
  write("membership", "5:cpuset:/z\n4:cpu,cpuacct:/a\n0::/\n");
  write("tree/cpu/a/cpu.cfs_quota_us", "200000\n");
  write("tree/cpu/a/cpu.cfs_period_us", "100000\n");
  write("tree/cpu/cpu.cfs_quota_us", "-1\n");
  write("tree/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota(), 2.0);
}

TEST_F(CpuQuota, SurvivesNonsense) {
  write("membership", "\n:\n::\n0::\n0:cpu\n0::/a\n");
  write("tree/a/cpu.max", "many 0\n");
  EXPECT_EQ(quota(), 0.0);
}

}  // namespace
}  // namespace gantry
