// Choices among hundreds of ranks, where most plans are too large to be proved.
#include <gtest/gtest.h>

#include <algorithm>
#include <gantry/plan.hpp>

#include "ranks/schedule/space/split.hpp"

namespace gantry {
namespace {

OverlapOperator wide_operator(unsigned ranks, OverlapKind kind = OverlapKind::all_gather_gemm) {
  return {.kind = kind,
          .m = 16'384,
          .n = 16'384,
          .k = 8192,
          .type = {DataType::bfloat, 16, 1},
          .ranks = ranks};
}

ScheduleCosts published() {
  return published_costs("published/mi300x-8").value();
}

class ManyRanks : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Choice, ManyRanks, testing::Values(170, 256));

TEST_P(ManyRanks, HaveAPlanThatCanBeProved) {
  const ScheduleCosts costs = published();
  for (const auto kind : {OverlapKind::all_gather_gemm, OverlapKind::gemm_reduce_scatter}) {
    const OverlapOperator op = wide_operator(GetParam(), kind);
    const auto found = search(op, costs);
    ASSERT_TRUE(found) << to_string(found.error());
    EXPECT_TRUE(found->is_provable);
    const auto plan = make_plan(op, found->schedule);
    ASSERT_TRUE(plan) << to_string(found->schedule);
    EXPECT_EQ(simulate(*plan, costs)->seconds, found->predicted_s);
    EXPECT_LE(found->evaluated, std::max<std::size_t>(4, found->space / 10));
    // Not only rings: those take hundreds of turns.
    const auto ring = make_plan(op, {.pattern = SchedulePattern::ring});
    EXPECT_LT(found->predicted_s, simulate(*ring, costs)->seconds / 2);
    const auto choice = choose(op, costs, {.most_simulated = 2});
    ASSERT_TRUE(choice) << to_string(choice.error());
    EXPECT_TRUE(make_plan(op, choice->schedule)) << to_string(choice->schedule);
  }
}

TEST(Choice, FewerLanesOfHundredsOfRanksPassTheCheck) {
  const OverlapOperator op = wide_operator(180);
  const auto plan = make_plan(op, {});
  ASSERT_TRUE(plan);
  EXPECT_LT(plan->lanes, 64u);
  const auto facts = check_plan(*plan);
  EXPECT_TRUE(facts) << to_string(facts.error());
}

TEST(Choice, ASearchAmongAThousandRanksSaysThatNobodyProvedIt) {
  const OverlapOperator op = wide_operator(1000);
  const auto found = search(op, published());
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_FALSE(found->is_provable);
  EXPECT_EQ(make_plan(op, found->schedule).error().code, Code::too_large);
  const auto plan = draft_plan(op, found->schedule);
  ASSERT_TRUE(plan);
  EXPECT_EQ(simulate(*plan, published())->seconds, found->predicted_s);

  const auto choice = choose(op, published());
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, Code::too_large);
  EXPECT_TRUE(choice.error().message.starts_with(
      "1000 ranks: no schedule makes a plan that can be proved: "))
      << choice.error().message;
  EXPECT_EQ(choice.error().hint, "ask for fewer ranks; a search says what such a plan would take");
}

TEST(Choice, ASearchAmongThousandsIsRefusedInOneLine) {
  const auto found = search(wide_operator(4096), published());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::too_large);
  EXPECT_EQ(found.error().message, "4096 ranks: over 1048576 transfers");
  EXPECT_EQ(found.error().hint, "ask for fewer ranks");
}

}  // namespace
}  // namespace gantry
