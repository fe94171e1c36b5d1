#include "core/base/os/numa_nodes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

namespace gantry {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(NumbersIn, ReadsTheKernelsLists) {
  EXPECT_THAT(numbers_in(""), IsEmpty());
  EXPECT_THAT(numbers_in("7"), ElementsAre(7));
  EXPECT_THAT(numbers_in("0-3,8,10-11"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
}

TEST(NumbersIn, EndsAtWhatIsNoList) {
  EXPECT_THAT(numbers_in("1,x,3"), ElementsAre(1));
  EXPECT_THAT(numbers_in("2-"), IsEmpty());
  EXPECT_THAT(numbers_in("-3"), IsEmpty());
  EXPECT_THAT(numbers_in("1;2"), ElementsAre(1));
  EXPECT_THAT(numbers_in("0-999999999"), IsEmpty());
}

TEST(AllowedCpus, AreWhereThisThreadMayRun) {
  const std::vector<int> before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(before.back()), &one);
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_THAT(allowed_cpus(), ElementsAre(before.back()));
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(NumaNodes, HoldTheCpusThatAreAllowed) {
  std::vector<int> all;
  for (const NodeCpus& node : numa_nodes())
    all.insert(all.end(), node.cpus.begin(), node.cpus.end());
  if (all.empty()) GTEST_SKIP() << "this kernel tells of no nodes";
  for (const int cpu : allowed_cpus()) EXPECT_THAT(all, Contains(cpu));
}

}  // namespace
}  // namespace gantry
