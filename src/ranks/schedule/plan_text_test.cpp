// The text of plans: what is read, and what each wrong line is told.
#include <gmock/gmock.h>

#include "core/base/text_lines.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(PlanText, SaysAllThatAPlanIs) {
  const std::string fine = R"(gantry-plan 1
about two ranks; # is no remark here
ranks 2   # behind a sign
lanes 3

tensor a 4 3 bf16
  tensor b_1 3 2 bf16
tensor c 4 2 bf16
given a@0 1:4,0:3 = A -1,0 + X0 0,5
wanted c@1 0:4,0:2 = A*B 0,0 0:3
wanted c@0 0:0,0:2 = 0
put 0/2 a@0 1:4,0:3 to a@1 1:4,0:3
get 1/0 a@0 1:4,0:3 to a@1 1:4,0:3 after 0
copy 0/0 a@0 0:1,0:3 to a@0 1:2,0:3
gemm 1/1 a@1 0:4,0:3 by b_1@1 0:3,0:2 to c@1 0:4,0:2 adding after 0 1
reduce 1/1 a@1 0:1,0:3 to a@1 1:2,0:3
fill 1/1 c@1 0:4,0:2
signal 1/1 to 0 after 3
barrier 0/0
)";
  const auto plan = parse_plan(fine);
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->about, "two ranks; # is no remark here");
  EXPECT_EQ(plan->ranks, 2u);
  EXPECT_EQ(plan->lanes, 3u);
  ASSERT_EQ(plan->tensors.size(), 3u);
  EXPECT_EQ(plan->tensors[1].name, "b_1");
  EXPECT_EQ(plan->tensors[1].type, (DataType{DataType::bfloat, 16, 1}));
  ASSERT_EQ(plan->given.size(), 1u);
  EXPECT_EQ(plan->given[0].place.rect, (PlanRect{1, 0, 3, 3}));
  EXPECT_EQ(plan->given[0].sum[0], (PlanTerm{"A", "", -1, 0, 0, 0}));
  EXPECT_EQ(plan->given[0].sum[1], (PlanTerm{"X0", "", 0, 5, 0, 0}));
  EXPECT_EQ(plan->wanted[0].sum[0], (PlanTerm{"A", "B", 0, 0, 0, 3}));
  EXPECT_TRUE(plan->wanted[1].sum.empty());
  ASSERT_EQ(plan->steps.size(), 8u);
  EXPECT_EQ(plan->steps[0].verb, PlanVerb::put);
  EXPECT_EQ(plan->steps[0].lane, 2u);
  EXPECT_EQ(plan->steps[1].from.rank, 0u);
  EXPECT_TRUE(plan->steps[3].adds);
  EXPECT_EQ(plan->steps[3].after, (std::vector<unsigned>{0, 1}));
  EXPECT_EQ(plan->steps[3].other.rect, (PlanRect{0, 0, 3, 2}));
  EXPECT_FALSE(plan->steps[4].adds);
  EXPECT_EQ(plan->steps[6].to.rank, 0u);
  EXPECT_EQ(to_text(*parse_plan(to_text(*plan))), to_text(*plan));
  EXPECT_EQ(name_of_step(*plan, 3), "step 3 (gemm, rank 1)");
  EXPECT_EQ(name_of_step(*plan, 9), "step 9");
}

TEST(PlanText, AWordThatNoPlanSaysIsToldWithThoseThatItMay) {
  const auto plan = parse_plan("gantry-plan 1\nputt 0/0 a@0 0:1,0:1 to a@1 0:1,0:1\n");
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("unknown statement 'putt'"));
  EXPECT_THAT(plan.error().hint, HasSubstr("about, ranks, lanes, tensor, given, wanted, "));
  EXPECT_THAT(plan.error().hint, HasSubstr(", put"));
}

TEST(PlanText, SaysOfEachWrongLineWhatIsWrong) {
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {"ranks", "a number is missing"},
           {"ranks two", "'two' is not a number"},
           {"ranks -1", "'-1' is not a number"},
           {"ranks 2 3", "unexpected '3' after the statement"},
           {"ranks 99999999999", "is not a number"},
           {"rank 2", "unknown statement 'rank'"},
           {"tensor x 4 4 f8", "unknown type 'f8'"},
           {"tensor x 4", "a number is missing"},
           {"given y@0 0:1,0:1 = 0", "there is no tensor 'y'"},
           {"given a 0:1,0:1 = 0", "'@' is missing in 'a'"},
           {"given a@0 0:1 = 0", "',' is missing in '0:1'"},
           {"given a@0 0,0 = 0", "':' is missing in '0'"},
           {"given a@0 1:0,0:1 = 0", "range '1:0': start must not exceed end"},
           {"given a@0 0:2000000000000,0:1 = 0", "end must not exceed 1099511627776"},
           {"given a@0 -1:1,0:1 = 0", "range '-1:1': start must not be negative"},
           {"given a@0 0:1,0:1", "'=' is missing"},
           {"given a@0 0:1,0:1 = A", "',' is missing in ''"},
           {"given a@0 0:1,0:1 = A* 0,0 0:1", "product 'A*': the right factor is missing"},
           {"given a@0 0:1,0:1 = A*B 0,0", "':' is missing in ''"},
           {"given a@0 0:1,0:1 = A 0,0 B 0,0", "unexpected 'B 0,0' after the statement"},
           {"put 0 a@0 0:1,0:1 to a@1 0:1,0:1", "'/' is missing in '0'"},
           {"put 0/0 a@0 0:1,0:1 a@1 0:1,0:1", "unexpected 'a@1' where 'to' belongs"},
           {"gemm 0/0 a@0 0:1,0:1 to a@0 0:1,0:1", "unexpected 'to' where 'by' belongs"},
           {"fill 0/0 a@0 0:1,0:1 adding", "unexpected 'adding' after the statement"},
           {"fill 0/0 a@0 0:1,0:1 after", "a number is missing"},
           {"fill 0/0 a@0 0:1,0:1 after x", "'x' is not a number"},
           {"signal 0/0 1", "unexpected '1' where 'to' belongs"},
           {"barrier 0/0 to 1", "unexpected 'to 1' after the statement"},
           {"ranks\t2", "control character"}}) {
    const auto plan = parse_plan("gantry-plan 1\ntensor a 4 4 f32\n" + line + "\n");
    ASSERT_FALSE(plan) << line;
    EXPECT_EQ(plan.error().code, Code::invalid_argument) << line;
    EXPECT_THAT(plan.error().message, StartsWith("line 3: ")) << line;
    EXPECT_THAT(plan.error().message, HasSubstr(what)) << line;
  }
}

TEST(PlanText, IsOfOneVersion) {
  for (const std::string text : {"", "gantry-plan 2\n", "gantry-plan 1 \n", "\ngantry-plan 1\n",
                                 "plan\n", " gantry-plan 1\n"})
    EXPECT_THAT(parse_plan(text).error().message, HasSubstr("plan")) << text;
  const auto refusal = [](const char* text) { return to_string(parse_plan(text).error()); };
  EXPECT_EQ(refusal("gantry-plan 1\r\n"),
            "line 1: it ends in a carriage return; lines end in a line feed alone");
  EXPECT_EQ(refusal("gantry-plan 1\nranks 2\r\n"),
            "line 2: it ends in a carriage return; lines end in a line feed alone");
  EXPECT_EQ(refusal("gantry-collective 1\n"),
            "line 1: this is a collective, no plan; `gantry plan expand` makes a plan of it");
  EXPECT_EQ(refusal(""), "it is empty; a plan's first line is 'gantry-plan 1'");
  EXPECT_EQ(refusal(" gantry-plan 1\n"), "line 1: blanks stand in front of 'gantry-plan 1'");
  EXPECT_TRUE(parse_plan("gantry-plan 1"));
  EXPECT_THAT(parse_plan("gantry-plan 1\ntensor a 4 3 f32\ngiven a@0 1:4,0:3 = A -1,0 + X.0 0,5\n")
                  .error()
                  .message,
              HasSubstr("a term that is none"));
  EXPECT_THAT(parse_plan("gantry-plan 1\nranks 0\n").error().message, HasSubstr("0 ranks"));
  EXPECT_THAT(parse_plan("gantry-plan 1\nranks 4097\n").error().message, HasSubstr("4097 ranks"));
  EXPECT_THAT(parse_plan("gantry-plan 1\nlanes 65\n").error().message, HasSubstr("65 lanes"));
  EXPECT_THAT(parse_plan("gantry-plan 1\ntensor a 1 1 f32\ntensor a 1 1 f32\n").error().message,
              HasSubstr("two tensors a"));
  EXPECT_THAT(parse_plan("gantry-plan 1\ntensor 1a 1 1 f32\n").error().message,
              HasSubstr("'1a' is no name"));
}

TEST(PlanText, QuotesNoMoreThanTheBeginningOfAWord) {
  const std::string word(1 << 20, 'x');
  for (const std::string& line :
       {word, "ranks " + word, "ranks 1 " + word, "tensor " + word + " 1 1 f32",
        "tensor a 1 1 " + word, "given a@0 " + word, "given " + word + "@0 0:1,0:1 = 0",
        "given a@0 " + word + ":1,0:1 = 0", "given a@0 0:1,0:1 " + word,
        "given a@0 0:1,0:1 = " + word + " 0,0", "given a@0 0:1,0:1 = " + word + "* 0,0",
        "put " + word}) {
    const Error error = parse_plan("gantry-plan 1\ntensor a 4 4 f32\n" + line + "\n").error();
    EXPECT_LT(error.message.size(), 200u) << line.substr(0, 30);
    EXPECT_LT(error.hint.size(), 200u) << line.substr(0, 30);
  }
  EXPECT_EQ(quote(std::string(64, 'x')), "'" + std::string(64, 'x') + "'");
  EXPECT_EQ(quote(std::string(65, 'x')), "'" + std::string(64, 'x') + "...' (65 bytes)");
  const std::string two_bytes = std::string(63, 'x') + "\u00e4\u00e4";
  EXPECT_EQ(quote(two_bytes), "'" + std::string(63, 'x') + "...' (67 bytes)");
}

}  // namespace
}  // namespace gantry
