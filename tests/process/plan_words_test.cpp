// `gantry plan`: that it claims no more than it has proved or simulated, and what it says to who
// gave it something else than it takes.
#include <nlohmann/json.hpp>

#include "plan_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::vector<std::string> kLarge{
    "--operator", "all-gather-gemm", "--m",     "131072", "--n",     "16384",
    "--k",        "16384",           "--ranks", "8",      "--costs", kPublished};

// ---- what was not simulated or proved --------------------------------------------------------

TEST_F(PlanCli, WhatIsOnlyEstimatedSaysSo) {
  const auto rules = plan({"explain", "--rules-only"}, kLarge);
  ASSERT_EQ(rules.status, 0) << rules.errors;
  EXPECT_THAT(rules.output, HasSubstr("\nestimated/published/mi300x-8: "));
  EXPECT_THAT(rules.output, Not(HasSubstr("simulated/")));
  EXPECT_THAT(rules.output, Not(HasSubstr("  0 ns")));
  const auto json =
      nlohmann::json::parse(plan({"explain", "--rules-only", "--json"}, kLarge).output);
  EXPECT_EQ(json["label"], "estimated/published/mi300x-8");
  for (const auto& one : json["candidates"]) EXPECT_FALSE(one.contains("losses"));
  EXPECT_EQ(plan({"explain", "--simulate", "0"}, kLarge).output, rules.output);
}

TEST_F(PlanCli, WhatCheckRefusesIsNotSimulated) {
  const std::string loose = loose_file();
  const auto checked = plan({"check", loose});
  expect_refused({"simulate", loose, "--costs", kPublished}, loose + ":");
  EXPECT_EQ(plan({"simulate", loose, "--costs", kPublished}).errors, checked.errors);
  const auto shown = plan({"show", loose, "--costs", kPublished});
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.output, HasSubstr("rank 0 |"));
  EXPECT_THAT(shown.errors, AllOf(IsOneLine(), HasSubstr("not proved: "), HasSubstr("step ")));
  EXPECT_THAT(plan({"simulate", "--help"}).output, HasSubstr("refuses"));
}

TEST_F(PlanCli, AStepIsToldWithTheLineOfTheFile) {
  const std::string unsure =
      "gantry-plan 1\n# fill and copy are steps, this is none\nranks 1\nlanes 1\n"
      "tensor a 1 1 f32\ntensor c 1 1 f32\nwanted c@0 0:1,0:1 = 0\n\n"
      "fill 0/0 c@0 0:1,0:1  # step 0\n  copy 0/0 a@0 0:1,0:1 to c@0 0:1,0:1\n";
  const std::string path = file("unsure", unsure);
  expect_refused({"check", path},
                 path + ":10: step 1 (copy, rank 0): nothing has been written to a@0 0:1,0:1");
  expect_refused({"simulate", path, "--costs", kPublished}, path + ":10: step 1 ");
  EXPECT_THAT(plan({"show", path, "--costs", kPublished}).errors,
              HasSubstr(path + ":10: not proved: step 1 "));
}

TEST_F(PlanCli, APlanThatWantsNothingIsNotProved) {
  std::string text = ring_text();
  for (std::size_t at = 0; (at = text.find("wanted ")) != std::string::npos;)
    text.erase(at, text.find('\n', at) + 1 - at);
  const std::string says = "nothing is wanted: nothing was proved of what comes out";
  expect_refused({"check", file("aimless", text)}, "aimless: " + says);
  expect_refused({"check", file("none", "gantry-plan 1\n")}, "none: " + says);
  expect_refused(
      {"check", file("empty", "gantry-plan 1\ntensor c 1 1 f32\nwanted c@0 0:0,0:1 = 0\n")}, says);
}

TEST_F(PlanCli, WhatIsMadeCanBeProved) {
  const std::vector<std::string> many{"make", "--m", "8192",    "--n", "512",
                                      "--k",  "512", "--ranks", "512", "--schedule"};
  auto words = many;
  words.emplace_back("gantry-schedule 1 all-gather-gemm at-once rows even piece 1 put");
  expect_refused(words, " steps for 512 ranks, which cannot be proved");
  EXPECT_THAT(plan(words).errors, HasSubstr("fewer chunks"));
}

// ---- operators and schedules -----------------------------------------------------------------

TEST_F(PlanCli, AScheduleNeedsNoSentenceWhereTheOperatorIsNamed) {
  const std::string point = "ring rows own-first piece 2 put";
  const auto made = plan(
      {"make", "--operator", "all-gather-gemm", "--schedule", point, "--type", "f32"}, kOperator);
  EXPECT_EQ(made.output, ring_text());
  const auto nameless = plan({"make", "--schedule", point}, kOperator);
  EXPECT_EQ(nameless.status, 1);
  EXPECT_THAT(nameless.errors, HasSubstr("--operator"));
}

TEST_F(PlanCli, WhatCannotBeKeptToIsSaid) {
  expect_refused({"explain", "--operator", "gemm-reduce-scatter", "--m", "8", "--n", "8", "--k",
                  "8", "--ranks", "2", "--replicated", "--costs", kPublished},
                 "replicated is for all-gather-gemm only");
  expect_refused({"explain", "--operator", "all-gather-gemm", "--m", "8", "--n", "8", "--k", "8",
                  "--ranks", "2", "--at-most", "10", "--costs", kPublished},
                 "no schedule keeps to the constraints: the least of them needs 256 bytes a rank");
}

TEST_F(PlanCli, WhatIsNotThereIsToldWithWhatBelongsThere) {
  const std::vector<std::string> sides{"--m", "8", "--n", "8", "--k", "8", "--ranks", "2"};
  const auto explained = [&](std::vector<std::string> words, const std::string& costs) {
    words.insert(words.begin(), "explain");
    words.insert(words.end(), {"--costs", costs});
    return plan(words);
  };
  const auto kind = explained({"all-gather-gemm", "--m", "8"}, kPublished);
  EXPECT_EQ(kind.status, 2);
  EXPECT_THAT(kind.errors,
              AllOf(IsOneLine(), HasSubstr("'all-gather-gemm' is no file: --operator all-gather")));
  expect_refused({"explain", "nowhere.txt", "--costs", kPublished},
                 "nowhere.txt: No such file or directory; an operator as a file, or by options");
  auto words = sides;
  words.insert(words.begin(), {"--operator", "all-gather-gemm"});
  EXPECT_EQ(explained(words, kPublished).status, 0);
  EXPECT_THAT(explained(words, "mi300x-8").errors,
              HasSubstr("mi300x-8: No such file or directory; published/mi300x-8, or a file of"));
  EXPECT_THAT(
      explained({"--operator", "all-gather-gemm", "--n", "8"}, kPublished).errors,
      AllOf(IsOneLine(), HasSubstr("; there is no m, no k, no number of ranks; --operator")));
  expect_refused(
      {"explain", file("op", "gantry-operator 1\noperator gather\nm 8\n"), "--costs", kPublished},
      "op: there is no operator 'gather'; all-gather-gemm, ");
  EXPECT_THAT(plan({"check", "nowhere"}).errors, HasSubstr("; a plan as text; gantry plan make"));
}

TEST_F(PlanCli, HelpNamesCollectives) {
  EXPECT_THAT(plan({"--help"}).output,
              AllOf(HasSubstr("collectives"), HasSubstr("gantry plan expand all-reduce-ring")));
  const std::string expand = plan({"expand", "--help"}).output;
  for (const char* const line :
       {"\n  all-gather-ring (eager, rendezvous)\n", "\n  all-to-all-counts (eager, rendezvous)\n",
        "\n  broadcast-chain (eager, rendezvous)"})
    EXPECT_THAT(expand, HasSubstr(line));
}

TEST_F(PlanCli, NumbersAreRefusedAsTheyWereGiven) {
  auto words = kLarge;
  words[3] = "99999999999999999999";
  for (const char* const wrong : {"99999999999999999999", "many", "1e3", "", "5 "}) {
    words[3] = wrong;
    const auto ended = plan({"explain"}, words);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr(std::string("--m: '") + wrong + "'"),
                                    EndsWith("see gantry plan explain --help\n")));
  }
}

TEST_F(PlanCli, AnOperatorsFileSaysEachThingOnce) {
  const std::string head = "gantry-operator 1\noperator all-to-all-gemm\nm 6\nn 8\nk 8\nranks 2\n";
  const auto explain = [&](const std::string& more) {
    return std::vector<std::string>{"explain", file("operator", head + more), "--costs",
                                    kPublished};
  };
  EXPECT_EQ(plan(explain("split 0 2 3 1\n")).status, 0);
  expect_refused(explain("split 0 2 3 1\nsplit 1\n"), "operator: line 8: 'split' is set already");
  expect_refused(explain("m 7\n"), "operator: line 7: 'm' is set already");
  expect_refused(explain("split 0 2 3 1 0\n"), "operator: rows for 5 pairs of ranks; there are 4");
  expect_refused(explain("split 0 2 99999999999999999999 1\n"), "operator: line 7: ");
}

// ---- files of another kind -------------------------------------------------------------------

constexpr const char* kMine = R"(gantry-collective 1
name my-broadcast
variants quick, slow
tensor x 1, size
given x@root = X
for r in 0:ranks
  wanted x@r = X
  if r != root and size / chunks > 0
    put x@root to x@r
  end
end
)";

TEST_F(PlanCli, ACollectiveBecomesAPlan) {
  const std::string mine = file("my.gcoll", kMine);
  const auto checked = plan({"check", mine});
  EXPECT_EQ(checked.status, 1);
  EXPECT_THAT(checked.errors, AllOf(IsOneLine(), HasSubstr("this is a collective"),
                                    HasSubstr("gantry plan expand")));
  const auto expanded = plan({"expand", mine, "--ranks", "3", "--size", "100", "--variant", "slow",
                              "--chunks", "2", "--root", "1", "--type", "bf16"});
  ASSERT_EQ(expanded.status, 0) << expanded.errors;
  EXPECT_THAT(expanded.output,
              StartsWith("gantry-plan 1\nabout my-broadcast: ranks 3, size 100 bf16, chunks 2, "
                         "root 1, slow\n"));
  EXPECT_EQ(plan({"check", file("expanded", expanded.output)}).status, 0);
  const auto own = plan({"expand", "all-reduce-ring", "--ranks", "4", "--size", "64"});
  EXPECT_EQ(plan({"check", file("ring", own.output)}).status, 0) << own.errors;
  const auto exchange = plan({"expand", "all-to-all-counts", "--ranks", "2", "--size", "7",
                              "--counts", "1", "2", "3", "4"});
  EXPECT_EQ(exchange.status, 0) << exchange.errors;

  std::string text = kMine;
  text.replace(text.find("size / chunks"), 13, "size / (r - r)");
  expect_refused({"expand", file("zero.gcoll", text), "--ranks", "2", "--size", "1"},
                 "zero.gcoll: line 8: 1 / 0: division by zero");
  expect_refused({"expand", "all-reduce-ring", "--ranks", "0", "--size", "1"},
                 "gantry: all-reduce-ring: a group of 0 ranks; 1 to 4096");
  EXPECT_EQ(plan({"expand", mine, "--size", "1"}).status, 2);
}

TEST_F(PlanCli, LinesOfOtherSystemsAreCalledWhatTheyAre) {
  std::string lines;
  for (const char c : ring_text()) lines += c == '\n' ? std::string("\r\n") : std::string(1, c);
  expect_refused({"check", file("crlf", lines)}, "crlf: line 1: it ends in a carriage return");
  expect_refused({"check", file("blank", " " + ring_text())},
                 "blank: line 1: blanks stand in front of 'gantry-plan 1'");
  expect_refused({"check", file("empty", "\n" + ring_text())}, "empty: line 1: it is empty");
  const std::string ring = ring_file();
  expect_refused({"simulate", ring, "--costs", file("costs", "gantry-costs 1\r\n")},
                 "costs: line 1: it ends in a carriage return");
  expect_refused(
      {"expand", file("c.gcoll", "gantry-collective 1\r\n"), "--ranks", "1", "--size", "1"},
      "c.gcoll: line 1: it ends in a carriage return");
  expect_refused(
      {"explain", file("operator", "gantry-operator 1\r\nm 5\r\n"), "--costs", kPublished},
      "operator: line 1: it ends in a carriage return");
  expect_refused({"simulate", ring, "--costs", ring}, "ring: line 1: this is a plan");
}

// ---- usage -----------------------------------------------------------------------------------

TEST_F(PlanCli, HelpIsThatOfTheCommand) {
  for (const std::string name :
       {"check", "simulate", "show", "expand", "explain", "search", "make"}) {
    const auto help = plan({name, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.output,
                AllOf(HasSubstr("Example: gantry plan " + name), Not(HasSubstr("gantry put"))))
        << name;
    const auto wrong = plan({name, "--wibble", "1"});
    EXPECT_EQ(wrong.status, 2);
    EXPECT_THAT(wrong.errors, AllOf(IsOneLine(), EndsWith("gantry plan " + name + " --help\n")));
  }
  EXPECT_THAT(plan({"check"}).errors, EndsWith("see gantry plan check --help\n"));
  EXPECT_THAT(plan({"simulate", "x", "--cost", "y"}).errors, HasSubstr("did you mean '--costs'?"));
}

TEST_F(PlanCli, AnUnknownWordIsNamed) {
  const auto ended = plan({"chekc", "file"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors,
              HasSubstr("command 'plan chekc': there is no such command; did you mean 'check'?"));
  EXPECT_THAT(plan({"wibble", "file"}).errors,
              HasSubstr("known here: check, simulate, show, expand, explain, search, make"));
  EXPECT_THAT(plan({}).errors, HasSubstr("known here: check, "));
}

}  // namespace
}  // namespace gantry::test
