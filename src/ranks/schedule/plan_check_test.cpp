// Each thing that a plan is refused for, in words that name the step and the place.
#include <gmock/gmock.h>

#include "ranks/schedule/plan.hpp"
#include "ranks/schedule/tiles.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;

/// Rank 0 sends a shard of A to rank 1, which multiplies it.
constexpr std::string_view kHead = R"(gantry-plan 1
ranks 2
lanes 2
tensor a 4 3 i64
tensor b 3 2 i64
tensor c 4 2 i64
given a@0 0:4,0:3 = A 0,0
given b@1 0:3,0:2 = B 0,0
)";
constexpr std::string_view kWanted = "wanted c@1 0:4,0:2 = A*B 0,0 0:3\n";

std::string plan_of(std::string_view steps, std::string_view wanted = kWanted) {
  return std::string(kHead) + std::string(wanted) + std::string(steps);
}

Error refusal(const std::string& text, const PlanLimits& limits = {}) {
  const auto plan = parse_plan(text);
  if (!plan) return plan.error();
  const auto checked = check_plan(*plan, limits);
  if (checked) return {Code::closed, "it passed", {}};
  return checked.error();
}
std::string why(std::string_view steps, std::string_view wanted = kWanted) {
  return refusal(plan_of(steps, wanted)).message;
}

TEST(PlanCheck, SaysWhatAPlanCosts) {
  const auto facts = check_plan(parse_plan(plan_of(R"(put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3
gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2 after 0
)"))
                                    .value());
  ASSERT_TRUE(facts) << to_string(facts.error());
  EXPECT_EQ(facts->memory, (std::vector<Bytes>{4 * 3 * 8, (4 * 3 + 3 * 2 + 4 * 2) * 8}));
  EXPECT_EQ(facts->sent, (std::vector<Bytes>{4 * 3 * 8, 0}));
  EXPECT_EQ(facts->received, (std::vector<Bytes>{0, 4 * 3 * 8}));
  EXPECT_EQ(facts->flops, (std::vector<double>{0, 2 * 4 * 3 * 2}));
}

TEST(PlanCheck, RefusesWhatIsReadBeforeItIsWritten) {
  EXPECT_THAT(why("gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2\n"),
              HasSubstr("step 0 (gemm, rank 1): nothing has been written to a@1 0:4,0:3"));
  EXPECT_THAT(why("put 0/0 a@0 0:3,0:3 to a@1 0:3,0:3\n"
                  "gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2 after 0\n"),
              HasSubstr("nothing has been written to a@1 3:4,0:3"));
}

TEST(PlanCheck, RefusesTwoThatMayMeet) {
  EXPECT_THAT(why("put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n"
                  "gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2\n"),
              HasSubstr("may write a@1 0:4,0:3 before, while or after"));
  // A place is used again before who reads it has read it.
  EXPECT_THAT(why("put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n"
                  "gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2 after 0\n"
                  "put 0/0 a@0 0:1,0:3 to a@1 3:4,0:3 after 0\n"),
              HasSubstr("may read a@1 3:4,0:3 before, while or after"));
  EXPECT_THAT(why("fill 1/0 c@1 0:4,0:2\nfill 1/1 c@1 3:4,1:2\n"),
              HasSubstr("may write c@1 3:4,1:2"));
}

TEST(PlanCheck, TakesOrderFromLanesSignalsAndBarriers) {
  const std::string_view used_again = R"(put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3
gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2 after 0
)";
  const std::string put_again = "put 0/1 a@0 0:1,0:3 to a@1 3:4,0:3 after ";
  EXPECT_EQ(why(std::string(used_again) + "signal 1/0 to 0\n" + put_again + "2\n"), "it passed");
  EXPECT_THAT(why(std::string(used_again) + "signal 1/1 to 0\n" + put_again + "0 2\n"),
              HasSubstr("may read"))
      << "of another lane";
  EXPECT_EQ(why(std::string(used_again) + "barrier 1/0\nbarrier 0/1\n" + put_again + "0\n"),
            "it passed");
  EXPECT_THAT(why(std::string(used_again) + "barrier 1/1\nbarrier 0/1\n" + put_again + "0\n"),
              HasSubstr("may read"));
}

TEST(PlanCheck, RefusesWhatCannotBeHeard) {
  EXPECT_THAT(why("put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n"
                  "gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2 after 0\n"
                  "put 0/0 a@0 0:1,0:3 to a@1 3:4,0:3 after 1\n"),
              HasSubstr("step 2 (put, rank 0) is after step 1 (gemm, rank 1), of which rank 0 does "
                        "not hear"));
  EXPECT_THAT(why("barrier 0/0\n"), HasSubstr("rank 1 has 0 barriers, rank 0 has 1"));
  EXPECT_THAT(why("fill 1/0 c@1 0:4,0:2 after 0\n"), HasSubstr("is after step 0, itself"));
  EXPECT_THAT(why("fill 1/0 c@1 0:4,0:2 after 1\n"), HasSubstr("is after step 1, which there is"));
}

TEST(PlanCheck, RefusesStepsThatWaitForEachOther) {
  EXPECT_THAT(why("signal 0/0 to 1 after 1\nsignal 1/0 to 0 after 0\n"),
              HasSubstr("waits for itself, by way of others"));
  EXPECT_THAT(why("fill 1/0 c@1 0:1,0:2 after 1\nfill 1/0 c@1 1:2,0:2\n"),
              HasSubstr("waits for itself"))
      << "the lane has its order";
  EXPECT_THAT(why("signal 0/0 to 1 after 3\nbarrier 0/0\nbarrier 1/0\nsignal 1/0 to 0\n"),
              HasSubstr("waits for itself"))
      << "behind the barrier that waits for it";
}

TEST(PlanCheck, RefusesAnotherEndThanIsWanted) {
  const std::string put = "put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n";
  EXPECT_THAT(why(put), HasSubstr("nothing is written to c@1 0:4,0:2"));
  EXPECT_THAT(why(put + "gemm 1/0 a@1 0:4,0:2 by b@1 0:2,0:2 to c@1 0:4,0:2 after 0\n"),
              HasSubstr("c@1 0:4,0:2 is wanted to have A*B 0,0 0:3; it has A*B 0,0 0:2"));
  EXPECT_THAT(why(put + "gemm 1/0 a@1 0:4,0:3 by b@1 0:3,0:2 to c@1 0:4,0:2 after 0\n"
                        "fill 1/0 c@1 2:3,0:2\n"),
              HasSubstr("c@1 2:3,0:2 is wanted to have A*B 0,0 0:3; it has 0"));
  EXPECT_THAT(why(put + "gemm 1/0 a@1 1:4,0:3 by b@1 0:3,0:2 to c@1 0:3,0:2 after 0\n"
                        "gemm 1/0 a@1 0:1,0:3 by b@1 0:3,0:2 to c@1 3:4,0:2 after 0\n"),
              HasSubstr("it has A*B 1,0 0:3"))
      << "rows in another's place";
  EXPECT_THAT(why(put, "wanted a@1 0:2,0:3 = 0\n"), HasSubstr("has more than is wanted: A 0,0"));
}

TEST(PlanCheck, RefusesWhatCountsTwice) {
  const std::string half = "gemm 1/0 a@1 0:4,0:2 by b@1 0:2,0:2 to c@1 0:4,0:2";
  EXPECT_THAT(
      why("put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n" + half + " after 0\n" + half + " adding\n"),
      HasSubstr("step 2 (gemm, rank 1): some of what is added to c@1 0:4,0:2 is there"));
  EXPECT_EQ(why("put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n" + half + " after 0\n" +
                "gemm 1/0 a@1 0:4,2:3 by b@1 2:3,0:2 to c@1 0:4,0:2 adding\n"),
            "it passed")
      << "the rest of the sum";
}

TEST(PlanCheck, RefusesFactorsThatDoNotMeet) {
  EXPECT_THAT(why("put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n"
                  "gemm 1/0 a@1 0:4,1:3 by b@1 0:2,0:2 to c@1 0:4,0:2 after 0\n"),
              HasSubstr("column 1 of A meets row 0 of B"));
  EXPECT_EQ(refusal(R"(gantry-plan 1
ranks 1
tensor a 2 2 f32
tensor b 2 2 f32
tensor c 2 2 f32
given a@0 0:2,0:2 = A*X 0,0 0:5
given b@0 0:2,0:2 = B 0,0
gemm 0/0 a@0 0:2,0:2 by b@0 0:2,0:2 to c@0 0:2,0:2
)")
                .code,
            Code::unsupported);
}

TEST(PlanCheck, RefusesPlacesAndShapesThatDoNotFit) {
  for (const auto& [steps, what] : std::vector<std::pair<std::string, std::string>>{
           {"fill 1/0 c@1 0:5,0:2\n", "c@1 0:5,0:2 is beyond 4 x 2"},
           {"fill 1/0 c@1 4:5,0:2\n", "is beyond 4 x 2"},
           {"fill 1/2 c@1 0:4,0:2\n", "lane 2 of 2"},
           {"fill 2/0 c@1 0:4,0:2\n", "rank 2 of a group of 2"},
           {"fill 1/0 c@2 0:4,0:2\n", "rank 2 of a group of 2"},
           {"fill 1/0 c@0 0:4,0:2\n", "another rank's memory"},
           {"copy 1/0 c@0 0:1,0:2 to c@1 0:1,0:2\n", "another rank's memory"},
           {"put 0/0 a@0 0:4,0:3 to a@0 0:4,0:3\n", "reads what it writes"},
           {"put 0/0 a@0 0:1,0:3 to a@0 1:2,0:3\n", "from its own rank to another one"},
           {"put 1/0 a@0 0:4,0:3 to a@1 0:4,0:3\n", "from its own rank to another one"},
           {"get 1/0 a@1 0:1,0:3 to a@1 1:2,0:3\n", "from another rank to its own"},
           {"signal 0/0 to 0\n", "it signals rank 0"},
           {"copy 0/0 a@0 0:2,0:3 to a@0 1:3,0:3\n", "reads what it writes"},
           {"put 0/0 a@0 0:4,0:3 to a@1 0:3,0:3\n", "4 x 3 into 3 x 3"},
           {"gemm 1/0 a@1 0:4,0:3 by b@1 0:2,0:2 to c@1 0:4,0:2\n",
            "4 x 3 times 2 x 2 is not 4 x 2"}}) {
    const Error error = refusal(plan_of(steps));
    EXPECT_EQ(error.code, Code::invalid_argument) << steps;
    EXPECT_THAT(error.message, HasSubstr(what)) << steps;
  }
}

TEST(PlanCheck, HoldsMemoryToItsLimit) {
  const std::string text = plan_of("put 0/0 a@0 0:4,0:3 to a@1 0:4,0:3\n", "");
  EXPECT_EQ(refusal(text, {.memory = (12 + 6) * 8}).code, Code::closed);
  EXPECT_THAT(refusal(text, {.memory = (12 + 6) * 8 - 1}).message,
              HasSubstr("rank 1 needs 144 bytes of tensors, beyond 143"));
  EXPECT_EQ(refusal("gantry-plan 1\ntensor a 1099511627776 1099511627776 f64\n").code,
            Code::too_large);
}

TEST(PlanCheck, FollowsThousandsOfSteps) {
  std::string text =
      "gantry-plan 1\nranks 8\nlanes 4\ntensor a 5000 8 f32\n"
      "given a@0 0:5000,0:8 = A 0,0\nwanted a@7 0:5000,0:8 = A 0,0\n";
  for (int i = 0; i < 5000; ++i)
    text += "put 0/" + std::to_string(i % 4) + " a@0 " + std::to_string(i) + ":" +
            std::to_string(i + 1) + ",0:8 to a@7 " + std::to_string(i) + ":" +
            std::to_string(i + 1) + ",0:8\n";
  EXPECT_EQ(refusal(text).message, "it passed");
}

// ---- what it may cost ------------------------------------------------------------------------

/// Rows are copied one by one, then columns: a rectangle for each element.
Plan crossing_plan(int sides) {
  const std::string all = "0:" + std::to_string(sides);
  const std::string size = std::to_string(sides) + " " + std::to_string(sides);
  std::string text = "gantry-plan 1\ntensor a " + size + " f32\ntensor b " + size +
                     " f32\ngiven a@0 " + all + "," + all + " = A 0,0\n";
  for (const bool is_row : {true, false})
    for (int i = 0; i < sides; ++i) {
      const std::string one = std::to_string(i) + ":" + std::to_string(i + 1);
      const std::string rect = is_row ? one + "," + all : all + "," + one;
      text += "copy 0/0 a@0 " + rect + " to b@0 " + rect + "\n";
    }
  return parse_plan(text).value();
}

TEST(PlanCheck, EndsWhereTilesAreTooMany) {
  const Plan plan = crossing_plan(30);
  EXPECT_TRUE(check_plan(plan, {}, CheckBudget()));
  const auto checked = check_plan(plan, {}, {.tiles = 900});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::too_large);
  EXPECT_THAT(checked.error().message,
              HasSubstr("step 44 (copy, rank 0): the plan's tensors are cut into too many"));
}

TEST(PlanCheck, EndsWhereItLooksTooOften) {
  const auto checked = check_plan(crossing_plan(30), {}, {.looks = 1000});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::too_large);
  EXPECT_THAT(checked.error().message, HasSubstr("(copy, rank 0): the plan takes too long"));
}

TEST(PlanCheck, EndsWhereSumsHaveTooManyTerms) {
  const auto text_with = [](std::size_t count) {
    std::string text = "gantry-plan 1\ntensor a 4 4 f32\ngiven a@0 0:4,0:4 = X 0,0";
    for (std::size_t i = 1; i < count; ++i) text += " + X" + std::to_string(i) + " 0,0";
    return text + "\n";
  };
  EXPECT_EQ(refusal(text_with(kMostTermsOfSum)).message, "it passed");
  const Error error = refusal(text_with(kMostTermsOfSum + 1));
  EXPECT_EQ(error.code, Code::too_large);
  EXPECT_EQ(error.message, "a@0 0:4,0:4: a sum of 8193 terms, beyond 8192");
  // A sum that grows step by step.
  const auto plan = parse_plan(
      "gantry-plan 1\ntensor a 2 2 f32\ntensor b 2 2 f32\ngiven a@0 0:2,0:2 = X 0,0 + Y 0,0\n"
      "given b@0 0:2,0:2 = Z 0,0\nreduce 0/0 a@0 0:2,0:2 to b@0 0:2,0:2\n");
  const auto checked = check_plan(plan.value(), {}, {.terms = 5});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::too_large);
  EXPECT_EQ(checked.error().message,
            "step 0 (reduce, rank 0): the plan's sums have too many terms");
}

TEST(PlanCheck, SaysNoMoreOfALongSumThanALine) {
  std::string sum = "X 0,0";
  for (int i = 0; i < 1000; ++i) sum += " + X" + std::to_string(i) + " 0,0";
  const Error error = refusal("gantry-plan 1\ntensor a 4 4 f32\ngiven a@0 0:4,0:4 = " + sum +
                              "\nwanted a@0 0:4,0:4 = Y 0,0\n");
  EXPECT_THAT(error.message, HasSubstr("it has X 0,0 + X0 0,0"));
  EXPECT_THAT(error.message, HasSubstr(" + 993 more"));
  EXPECT_LT(error.message.size(), 200u);
}

TEST(PlanCheck, EndsWhereWaitsAreTooMany) {
  Plan plan{.ranks = 64, .lanes = 64};
  PlanStep signal{};
  signal.verb = PlanVerb::signal;
  signal.to.rank = 1;
  plan.steps.assign(1024, signal);
  for (unsigned i = 1; i < 1024; ++i)
    for (unsigned turn = 0; turn < 300; ++turn) plan.steps[i].after.push_back(i - 1);
  const auto checked = check_plan(plan);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::too_large);
  EXPECT_THAT(checked.error().message, HasSubstr("steps that wait for 307923 others in all"));
}

}  // namespace
}  // namespace gantry
