// Older kernels and containers' profiles: each system call or option that Gantry can do without is
// refused in turn, by ENOSYS (or what the kernel says of an unknown option) and by EPERM, and
// channels still carry what was sent; what is a hard need is an error that says so. The table is
// docs/platforms.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "core/base/os/memfd.hpp"
#include "core/base/test_refusals.hpp"
#include "limits/exchange.hpp"

namespace gantry {
namespace {

constexpr std::uint32_t kPeerPidfd = 77, kPassRights = 83, kPopulateRead = 22, kPopulateWrite = 23,
                        kCollapse = 25, kNewUserfault = 0xaa00;

struct Case {
  std::string_view feature;  // as kernel_features() names it
  std::vector<test::Refusal> refusals;
};

// `unknown`: what a kernel says that does not know it.
std::vector<Case> optional_cases(int unknown) {
  const int option = unknown == EPERM ? EPERM : ENOPROTOOPT;
  const int advice = unknown == EPERM ? EPERM : EINVAL;
  return {
      {"pidfd_open", {{SYS_pidfd_open, unknown}}},
      {"SO_PEERPIDFD", {{SYS_getsockopt, option, true, 2, kPeerPidfd}}},
      {"SO_PASSRIGHTS", {{SYS_setsockopt, option, true, 2, kPassRights}}},
      {"MADV_POPULATE",
       {{SYS_madvise, advice, true, 2, kPopulateRead},
        {SYS_madvise, advice, true, 2, kPopulateWrite}}},
      {"MADV_COLLAPSE", {{SYS_madvise, advice, true, 2, kCollapse}}},
      {"membarrier", {{SYS_membarrier, unknown}}},
      {"close_range", {{SYS_close_range, unknown}}},
      {"io_uring", {{SYS_io_uring_setup, unknown}}},
      {"mbind", {{SYS_mbind, unknown}}},
      {"userfaultfd", {{SYS_userfaultfd, unknown}, {SYS_ioctl, unknown, true, 1, kNewUserfault}}}};
}

bool is_missing(std::string_view name) {
  const auto features = kernel_features();
  const auto found = std::ranges::find(features, name, &EngineStatus::name);
  return found != features.end() && !found->usable && !found->why.empty() && !found->mend.empty();
}

constexpr int kFine = 0;
constexpr const char* kMissing = "GANTRY_TEST_MISSING";  // what the next test may find missing

// Run by itself, and by the others as a new program in which calls are refused from the start.
TEST(Exchange, CarriesMessages) {
  const test::ChannelFolder folder;
  auto runtime = Runtime::create({.directory = folder.path()});
  ASSERT_TRUE(runtime) << runtime.error().message;
  for (const auto job : {test::exchange, test::call_and_reply, test::deliver}) {
    const auto done = job(*runtime);
    EXPECT_TRUE(done) << done.error().message;
  }
  if (const char* const missing = std::getenv(kMissing); missing != nullptr) {
    EXPECT_TRUE(is_missing(missing)) << missing;
  }
}

int carries(const Case& one) {
  if (!test::refuse_calls(one.refusals)) return test::kNoFilters;
  ::setenv(kMissing, std::string(one.feature).c_str(), 1);
  ::execl("/proc/self/exe", "refused_calls_test", "--gtest_filter=Exchange.*", nullptr);
  return 1;
}

class RefusedCalls : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Errors, RefusedCalls, testing::Values(ENOSYS, EPERM),
                         [](const auto& one) { return one.param == EPERM ? "Eperm" : "Enosys"; });

TEST_P(RefusedCalls, ThatAreOptionalCostNoMessageAndAreNamed) {
  for (const Case& one : optional_cases(GetParam())) {
    const int answer = test::in_child([&] { return carries(one); });
    if (answer == test::kNoFilters) GTEST_SKIP() << "no filters of system calls here";
    EXPECT_EQ(answer, kFine) << one.feature;
  }
}

TEST_P(RefusedCalls, ThatAreOptionalMayBeMissingTogether) {
  std::vector<test::Refusal> all;
  for (const Case& one : optional_cases(GetParam()))
    all.insert(all.end(), one.refusals.begin(), one.refusals.end());
  const int answer = test::in_child([&] { return carries({"pidfd_open", all}); });
  if (answer == test::kNoFilters) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_EQ(answer, kFine);
}

// ---- hard needs ----------------------------------------------------------------------------

int fails_clearly(const Case& one) {
  const test::ChannelFolder folder;
  if (!test::refuse_calls(one.refusals)) return test::kNoFilters;
  auto runtime = Runtime::create({.directory = folder.path()});
  if (!runtime) return 1;
  const auto refused = runtime->producer("frames");
  if (refused) return 2;
  if (refused.error().hint.find("Linux 5.1") == std::string::npos) return 3;
  return is_missing(one.feature) ? kFine : 4;
}

TEST_P(RefusedCalls, ThatAreNeededAreErrorsThatSaySo) {
  const int option = GetParam() == EPERM ? EPERM : EINVAL;
  constexpr std::uint32_t kFutureWrite =
      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;
  const std::array cases{Case{"memfd_create", {{SYS_memfd_create, GetParam()}}},
                         Case{"F_SEAL_FUTURE_WRITE",
                              {{SYS_fcntl, option, true, 2, kFutureWrite},
                               {SYS_fcntl, option, true, 2, F_SEAL_FUTURE_WRITE}}}};
  for (const Case& one : cases) {
    const int answer = test::in_child([&] { return fails_clearly(one); });
    if (answer == test::kNoFilters) GTEST_SKIP() << "no filters of system calls here";
    EXPECT_EQ(answer, kFine) << one.feature;
  }
}

}  // namespace
}  // namespace gantry
