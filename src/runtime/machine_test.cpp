#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <gantry/runtime.hpp>

#include "runtime/cpu_quota.hpp"
#include "runtime/machine_key.hpp"

namespace gantry {
namespace {

TEST(Machine, FactsArePlausible) {
  const MachineFacts facts = probe_machine();
  EXPECT_GE(facts.cpus, 1u);
  EXPECT_GE(facts.cpus_online, facts.cpus);
  EXPECT_GE(facts.numa_nodes, 1u);
  EXPECT_GT(facts.memory_bytes, Bytes{64} << 20);
  EXPECT_GT(facts.memory_free_bytes, 0u);
  EXPECT_LE(facts.memory_free_bytes, facts.memory_bytes);
  EXPECT_TRUE(facts.kernel.starts_with("Linux "));
  EXPECT_GE(facts.cpu_quota, 0.0);
}

TEST(Machine, CachesGrowWithTheirLevel) {
  const auto caches = probe_machine().caches;  // may be empty: some machines do not tell
  for (std::size_t i = 0; i < caches.size(); ++i) {
    EXPECT_GE(caches[i].count, 1u);
    EXPECT_GT(caches[i].bytes, 0u);
    EXPECT_GT(caches[i].level, i == 0 ? 0u : caches[i - 1].level);
  }
}

// Also where the C library does not know the caches: by the kernel.
TEST(Machine, TheLastLevelCacheIsKnownWhereTheKernelTellsIt) {
  if (!std::filesystem::exists("/sys/devices/system/cpu/cpu0/cache/index2/size"))
    GTEST_SKIP() << "this kernel tells no caches";
  EXPECT_GT(last_level_cache().bytes, 0u);
  EXPECT_EQ(machine_key().find("; caches 0 0 0;"), std::string::npos) << machine_key();
}

TEST(Machine, HugePagesHaveSizes) {
  for (const auto& size : probe_machine().huge_pages) {
    EXPECT_GE(size.page_bytes, Bytes{64} << 10);
    EXPECT_LE(size.free, size.total);
  }
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
