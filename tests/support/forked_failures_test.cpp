#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "forked_failures.hpp"

namespace gantry {
namespace {

constexpr const char* kInner = "GANTRY_TEST_A_CHILD_FAILS";

void fail_in_children() {
  for (const char* const said : {"said by a child", "said by another one"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      EXPECT_TRUE(false) << said;
      ::_exit(0);
    }
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  }
}

// A child that fails and ends well, whose parent does not ask how it ended.
TEST(ForkedFailures, AreFailuresOfTheirTest) {
  if (::getenv(kInner) != nullptr) return fail_in_children();  // started by the lines below
  const std::string command = std::string(kInner) + "= exec /proc/" + std::to_string(::getpid()) +
                              "/exe --gtest_filter=ForkedFailures.AreFailuresOfTheirTest 2>&1";
  std::FILE* const program = ::popen(command.c_str(), "r");
  ASSERT_NE(program, nullptr);
  std::string output;
  std::array<char, 4096> bytes{};
  while (const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), program))
    output.append(bytes.data(), got);
  const int status = ::pclose(program);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status << '\n' << output;
  EXPECT_THAT(output, testing::HasSubstr("2 failures in fork()ed children, the first:"));
  EXPECT_THAT(output, testing::HasSubstr("[  FAILED  ] ForkedFailures.AreFailuresOfTheirTest"));
}

TEST(ForkedFailures, OfAChildThatExpectsInVainAreNobodys) {
  const pid_t child = ::fork();
  if (child == 0) {
    test::expect_in_vain();
    std::freopen("/dev/null", "w", stdout);
    EXPECT_TRUE(false);
    ::_exit(0);
  }
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace gantry
