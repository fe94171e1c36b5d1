// What a rank takes from the variables of `gantry run`; nothing else sets them here.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "core/channel/test_support.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "ranks/group/group.hpp"

namespace gantry {
namespace {

class GroupOfTheLauncher : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kAll) ::unsetenv(name);
    set(kGroupVariable, "work");
    set(kRankVariable, "3");
    set(kRanksVariable, "4");
    set(kJoinWithinVariable, "1500");
  }
  void TearDown() override {
    for (const char* name : kAll) ::unsetenv(name);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
  static void expect_error(Code code, const std::string& begin) {
    const auto options = GroupOptions::of_launcher();
    ASSERT_FALSE(options);
    EXPECT_EQ(options.error().code, code);
    EXPECT_TRUE(options.error().message.starts_with(begin)) << options.error().message;
    EXPECT_FALSE(options.error().hint.empty());
    const auto group = Group::join(make_inline_engine().value());
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().message, options.error().message);
  }

  static constexpr const char* kAll[] = {kGroupVariable, kRankVariable, kRanksVariable,
                                         kJoinWithinVariable, "GANTRY_DIR"};
};

TEST_F(GroupOfTheLauncher, IsWhatItSets) {
  const auto options = GroupOptions::of_launcher();
  ASSERT_TRUE(options) << to_string(options.error());
  EXPECT_EQ(options->name, "work");
  EXPECT_EQ(options->rank, 3u);
  EXPECT_EQ(options->ranks, 4u);
  EXPECT_EQ(options->join_timeout, std::chrono::milliseconds(1500));
  EXPECT_TRUE(options->addresses.empty());
  EXPECT_EQ(options->directory, "");  // $GANTRY_DIR
}

TEST_F(GroupOfTheLauncher, IsJoinedWithoutOptions) {
  const test::ScratchDirectory folder;
  set("GANTRY_DIR", folder.path().c_str());
  set(kRankVariable, "0");
  set(kRanksVariable, "1");
  const auto group = Group::join(make_inline_engine().value());
  ASSERT_TRUE(group) << to_string(group.error());
  EXPECT_EQ(group->name(), "work");
  EXPECT_EQ(group->rank(), 0u);
  EXPECT_EQ(group->ranks(), 1u);
}

TEST_F(GroupOfTheLauncher, IsNoneForWhomNobodyStartedAsARank) {
  ::unsetenv(kGroupVariable);
  expect_error(Code::not_found,
               "group of the launcher: `gantry run` did not start this program as a rank");
}

TEST_F(GroupOfTheLauncher, RefusesNumbersOutOfRange) {
  for (const char* rank : {"4", "-1", "", "x", "1x", "18446744073709551616"}) {
    set(kRankVariable, rank);
    expect_error(Code::invalid_argument,
                 fmt::format("GANTRY_RANK: '{}' is not a number from 0 to 3", rank));
  }
  set(kRankVariable, "0");
  for (const char* ranks : {"0", "257"}) {
    set(kRanksVariable, ranks);
    expect_error(Code::invalid_argument,
                 fmt::format("GANTRY_RANKS: '{}' is not a number from 1 to 256", ranks));
  }
  ::unsetenv(kRanksVariable);
  expect_error(Code::invalid_argument, "GANTRY_RANKS: '' is not a number from 1 to 256");
  set(kRanksVariable, "4");
  set(kJoinWithinVariable, "0");
  expect_error(Code::invalid_argument, "GANTRY_JOIN_WITHIN_MS: '0' is not a number from 1 to");
}

}  // namespace
}  // namespace gantry
