// `gantry plan`: what it says of plans and operators, and of bad ones.
#include <nlohmann/json.hpp>

#include "plan_support.hpp"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(PlanCli, APlanIsMadeCheckedSimulatedAndDrawn) {
  const std::string ring = ring_file();
  const auto checked = plan({"check", ring, "--json"});
  ASSERT_EQ(checked.status, 0) << checked.errors;
  const auto facts = nlohmann::json::parse(checked.output);
  EXPECT_EQ(facts["about"], "all-gather-gemm of 60 x 8 x 16 f32: ring rows own-first piece 2 put");
  EXPECT_EQ(facts["steps"], 4 * 3 * 2 + 4 * 7);
  EXPECT_EQ(facts["sent_bytes"][3], 3 * 15 * 16 * 4);
  EXPECT_EQ(facts["flops"][0], 2 * 60 * 2 * 16);
  EXPECT_THAT(plan({"check", ring}).output, StartsWith("passes: 4 ranks, 2 lanes, 52 steps\n"));

  const auto simulated = plan({"simulate", ring, "--costs", kPublished, "--json"});
  ASSERT_EQ(simulated.status, 0) << simulated.errors;
  const auto times = nlohmann::json::parse(simulated.output);
  EXPECT_EQ(times["label"], "simulated/published/mi300x-8");
  EXPECT_EQ(times["steps"].size(), 52u);
  EXPECT_EQ(times["ranks"].size(), 4u);
  double last = 0;
  for (const auto& step : times["steps"]) last = std::max(last, step[1].get<double>());
  EXPECT_EQ(times["seconds"], last);

  const auto shown = plan({"show", ring, "--costs", kPublished});
  ASSERT_EQ(shown.status, 0) << shown.errors;
  EXPECT_THAT(shown.output, HasSubstr("rank 0 |"));
  EXPECT_THAT(shown.output, HasSubstr("3 to 0 |>>>"));
  const auto one = plan({"show", ring, "--costs", kPublished, "--rank", "1"});
  EXPECT_THAT(one.output, HasSubstr("0 to 1 |"));
  EXPECT_THAT(one.output, HasSubstr("1 to 2 |"));
  EXPECT_THAT(one.output, ::testing::Not(HasSubstr("2 to 3 |")));
}

TEST_F(PlanCli, APictureEndsSomewhere) {
  const auto made = plan({"make", "--schedule",
                          "gantry-schedule 1 all-gather-gemm at-once rows own-first piece 1 put",
                          "--m", "90", "--n", "90", "--k", "4", "--ranks", "9"});
  ASSERT_EQ(made.status, 0) << made.errors;
  const auto shown = plan({"show", file("nine", made.output), "--costs", kPublished});
  EXPECT_THAT(shown.output, HasSubstr("\n17 more rows; --rank shows those of one rank\n"));
  EXPECT_THAT(shown.output, HasSubstr("rank 7 |"));
  EXPECT_THAT(shown.output, ::testing::Not(HasSubstr("7 to 0 |")));
}

TEST_F(PlanCli, AnOperatorIsExplainedAndSearched) {
  const std::vector<std::string> large{
      "--operator", "all-gather-gemm", "--m",     "131072", "--n",     "16384",
      "--k",        "16384",           "--ranks", "8",      "--costs", kPublished};
  const auto text = plan({"explain"}, large);
  ASSERT_EQ(text.status, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("simulated/published/mi300x-8"));
  EXPECT_THAT(text.output, HasSubstr("ring-on-mesh"));
  auto words = large;
  words.emplace_back("--json");
  const auto choice = nlohmann::json::parse(plan({"explain"}, words).output);
  EXPECT_LT(choice["predicted_s"], choice["serial_s"]);
  EXPECT_GT(choice["candidates"].size(), 300u);
  const auto found = nlohmann::json::parse(plan({"search"}, words).output);
  EXPECT_LE(found["simulated"].get<int>() * 10, found["space"].get<int>());
  EXPECT_LE(found["predicted_s"].get<double>(), choice["predicted_s"].get<double>() * 1.02);
  const auto rules = plan({"explain", "--rules-only", "--without", "put-only"}, large);
  ASSERT_EQ(rules.status, 0) << rules.errors;
  EXPECT_THAT(rules.output, ::testing::Not(HasSubstr("put-only")));

  const std::string from_file =
      file("operator",
           "gantry-operator 1\noperator all-gather-gemm\nm 131072\nn 16384 # columns\n"
           "k 16384\nranks 8\ntype bf16\n");
  EXPECT_EQ(plan({"explain", from_file, "--costs", kPublished}).output, text.output);
}

TEST_F(PlanCli, EachBadInputIsOneLine) {
  const std::string ring = ring_file();
  const std::string loose = loose_file();
  const std::string costs = file("costs", "gantry-costs 1\ncpus two\n");
  const std::string op = file("operator", "gantry-operator 1\noperator all-gather-gemm\nrows 5\n");
  struct Bad {
    std::vector<std::string> words;
    std::string says;
  };
  const std::vector<Bad> bad{
      {{"check", "/nowhere/plan"}, "/nowhere/plan: "},
      {{"check", costs}, "costs: line 1: these are costs, no plan"},
      {{"check", loose}, loose + ":"},
      {{"check", ring, "--at-most", "100"}, "ring: rank 0 needs "},
      {{"simulate", ring, "--costs", "published/none"}, "there are no costs 'published/none'"},
      {{"simulate", ring, "--costs", costs}, "costs: line 2: 'two' is not a number"},
      {{"show", ring, "--costs", kPublished, "--rank", "4"}, "--rank 4: the plan has 4"},
      {{"explain", "--costs", kPublished},
       "there is no kind, no m, no n, no k, no number of ranks"},
      {{"explain", op, "--costs", kPublished}, "operator: line 3: 'rows 5' is nothing"},
      {{"explain", ring, "--costs", kPublished}, "ring: no operator"},
      {{"search", "--operator", "gather", "--m", "1", "--n", "1", "--k", "1", "--ranks", "1",
        "--costs", kPublished},
       "there is no operator 'gather'; all-gather-gemm, gemm-reduce-scatter or all-to-all-gemm"},
      {{"search", "--operator", "all-gather-gemm", "--m", "-1", "--n", "1", "--k", "1", "--ranks",
        "1", "--costs", kPublished},
       "m is -1"},
      {{"explain", "--operator", "all-gather-gemm", "--m", "8", "--n", "8", "--k", "8", "--ranks",
        "2", "--at-most", "10", "--costs", kPublished},
       "no schedule keeps to the constraints"},
      {{"make", "--schedule", "ring", "--m", "1", "--n", "1", "--k", "1", "--ranks", "1"},
       "a word of the schedule is missing"},
  };
  for (const Bad& one : bad) expect_refused(one.words, one.says);
  for (const auto& words :
       std::vector<std::vector<std::string>>{{},
                                             {"chek"},
                                             {"check"},
                                             {"simulate", ring},
                                             {"explain", ring, "--m", "5"},
                                             {"explain", "--m", "many", "--costs", kPublished}}) {
    const auto ended = plan(words);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.errors, IsOneLine());
  }
}

}  // namespace
}  // namespace gantry::test
