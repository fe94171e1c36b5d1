// Every point of the space is a plan that passes and, run on integers, gives what is wanted.
#include <gantry/plan.hpp>

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/test_effort.hpp"
#include "ranks/schedule/test_plans.hpp"

namespace gantry {
namespace {

using test::kPlanType;
using test::pick;
using test::PlanRunner;
using test::Random;

constexpr OverlapKind kKinds[] = {OverlapKind::all_gather_gemm, OverlapKind::gemm_reduce_scatter,
                                  OverlapKind::all_to_all_gemm};

constexpr std::size_t kMostStepsToRun = 60;  // the runner looks at all of them for each

OverlapOperator some_operator(Random& random) {
  OverlapOperator op{.kind = kKinds[pick(random, 0, 2)], .type = kPlanType};
  op.n = pick(random, 0, 13);
  op.k = pick(random, 0, 13);
  op.ranks = static_cast<unsigned>(pick(random, 1, 5));
  op.m = pick(random, 0, 13);
  if (op.kind == OverlapKind::all_to_all_gemm && pick(random, 0, 1) == 1) {
    op.split.resize(std::size_t{op.ranks} * op.ranks);
    for (std::int64_t left = op.m; left > 0; --left)
      ++op.split[static_cast<std::size_t>(
          pick(random, 0, static_cast<std::int64_t>(op.split.size()) - 1))];
  }
  return op;
}

std::string name_of(const OverlapOperator& op, const Schedule& schedule) {
  std::string text = to_string(ScheduleSentence{op.kind, schedule});
  for (const std::int64_t one : {op.m, op.n, op.k, std::int64_t{op.ranks}})
    text += ' ' + std::to_string(one);
  return text;
}

// ---- who wants what, without the code that states it ------------------------------------------

/// What a plan says it wants at a rank, as elements: sums over depth of A[row][.] * B[.][col].
using Element = std::tuple<unsigned, std::int64_t, std::int64_t>;  // rank, row and column of c
struct Sum {
  std::int64_t row, col, first, last;
  std::string right;
  friend bool operator==(const Sum&, const Sum&) = default;
};

std::map<Element, Sum> stated(const Plan& plan) {
  std::map<Element, Sum> all;
  for (const PlanValue& value : plan.wanted)
    for (std::int64_t i = value.place.rect.row; i < value.place.rect.row + value.place.rect.rows;
         ++i)
      for (std::int64_t j = value.place.rect.col; j < value.place.rect.col + value.place.rect.cols;
           ++j) {
        EXPECT_EQ(value.place.tensor, 2u);
        const PlanTerm term = value.sum.empty() ? PlanTerm{"A", "", -i, -j} : value.sum.at(0);
        EXPECT_LE(value.sum.size(), 1u);
        all[{value.place.rank, i, j}] = {i + term.row, j + term.col, term.first, term.last,
                                         term.right};
      }
  return all;
}

/// The operator's definition, element by element.
std::map<Element, Sum> defined(const OverlapOperator& op) {
  std::map<Element, Sum> all;
  const auto add = [&](unsigned rank, std::int64_t row, std::int64_t col, Sum sum) {
    if (op.k == 0) sum = {0, 0, 0, 0, ""};
    all[{rank, row, col}] = sum;
  };
  const std::int64_t ranks = op.ranks;
  std::vector<std::int64_t> at(op.ranks);  // of each rank: rows that it has got
  std::int64_t row = 0;
  for (unsigned from = 0; from < op.ranks; ++from) {
    const std::int64_t shard = op.m * (from + 1) / ranks - op.m * from / ranks;
    if (op.kind == OverlapKind::all_gather_gemm)
      for (std::int64_t i = 0; i < op.m; ++i)
        for (std::int64_t j = op.n * from / ranks; j < op.n * (from + 1) / ranks; ++j)
          add(from, i, j - op.n * from / ranks, {i, j, 0, op.k, "B"});
    if (op.kind == OverlapKind::gemm_reduce_scatter)
      for (std::int64_t i = 0; i < shard; ++i)
        for (std::int64_t j = 0; j < op.n; ++j)
          add(from, op.m * from / ranks + i, j, {op.m * from / ranks + i, j, 0, op.k, "B"});
    if (op.kind != OverlapKind::all_to_all_gemm) continue;
    for (unsigned to = 0; to < op.ranks; ++to) {
      const std::int64_t rows = op.split.empty() ? shard * (to + 1) / ranks - shard * to / ranks
                                                 : op.split[std::size_t{from} * op.ranks + to];
      for (std::int64_t i = 0; i < rows; ++i, ++row, ++at[to])
        for (std::int64_t j = 0; j < op.n; ++j)
          add(to, at[to], j, {row, j, 0, op.k, "B" + std::to_string(to)});
    }
  }
  return all;
}

Plan plan_of(const OverlapOperator& op, const Schedule& schedule) {
  return std::move(make_plan(op, schedule)).value();
}

/// Each element that moves or is given is where the operator has it: A's rows, B's columns.
void expect_given(const OverlapOperator& op, const Plan& plan) {
  std::int64_t elements = 0;
  for (const PlanValue& value : plan.given) {
    ASSERT_LE(value.place.tensor, 1u);
    ASSERT_EQ(value.sum.size(), 1u);
    EXPECT_TRUE(value.sum[0].right.empty());
    elements += value.place.rect.rows * value.place.rect.cols;
  }
  const std::int64_t copies = op.kind == OverlapKind::all_to_all_gemm ? op.ranks : 1;
  EXPECT_EQ(elements, op.m * op.k + copies * op.k * op.n);  // nothing is given twice
}

TEST(ScheduleSpace, EveryPointGivesWhatIsWanted) {
  Random random(7);
  for (int cases = 0; cases < 10'000 / kTestStride;) {
    const OverlapOperator op = some_operator(random);
    const auto schedules = schedules_of(op);
    ASSERT_TRUE(schedules) << to_string(schedules.error());
    const auto truth = defined(op);
    for (int i = 0; i < 80; ++i) {
      const Schedule schedule = (*schedules)[static_cast<std::size_t>(
          pick(random, 0, static_cast<std::int64_t>(schedules->size()) - 1))];
      const auto plan = make_plan(op, schedule);
      ASSERT_TRUE(plan) << name_of(op, schedule) << ": " << to_string(plan.error());
      expect_given(op, *plan);
      ASSERT_EQ(stated(*plan), truth) << name_of(op, schedule);
      const auto facts = check_plan(*plan);
      ASSERT_TRUE(facts) << name_of(op, schedule) << ": " << to_string(facts.error()) << '\n'
                         << to_text(*plan);
      if (plan->steps.size() > kMostStepsToRun) continue;
      ++cases;
      PlanRunner runner(*plan, random);
      ASSERT_TRUE(runner.run() && runner.has_what_is_wanted()) << to_text(*plan);
    }
  }
}

TEST(ScheduleSpace, NoTwoPointsAreTheSamePlan) {
  Random random(8);
  for (int i = 0; i < 40; ++i) {
    const OverlapOperator op = some_operator(random);
    const auto schedules = schedules_of(op);
    ASSERT_TRUE(schedules);
    std::map<std::string, Schedule> seen;
    for (const Schedule& schedule : *schedules) {
      Plan plan = *make_plan(op, schedule);
      plan.about.clear();
      const auto [at, is_new] = seen.emplace(to_text(plan), schedule);
      EXPECT_TRUE(is_new) << name_of(op, schedule) << " is " << to_string(at->second);
    }
  }
}

TEST(ScheduleSpace, WhatIsLeftOutIsAPointThatIsIn) {
  const OverlapOperator op{
      .kind = OverlapKind::all_gather_gemm, .m = 40, .n = 6, .k = 5, .type = kPlanType, .ranks = 4};
  const auto schedules = schedules_of(op);
  ASSERT_TRUE(schedules);
  EXPECT_EQ(schedules->front(), (Schedule{}));
  const std::set<Schedule> all(schedules->begin(), schedules->end());
  for (const char* const text :
       {"serial get", "ring rows own-first piece 1 put", "at-once depth even step 5 put",
        "at-once rows even step 4 get", "ring depth own-first step 3 put",
        "at-once rows own-first piece 10 put"})
    EXPECT_TRUE(all.contains(*parse_schedule(text))) << text;
  for (const auto& [text, same] : std::map<std::string, std::string>{
           {"ring depth even step 1 put", "ring rows own-first piece 1 put"},
           {"at-once depth even step 1 get", "serial get"},
           {"ring rows even step 4 put", "ring rows own-first step 4 put"},
           {"at-once rows even piece 99 put", "at-once rows even piece 10 put"}})
    EXPECT_EQ(to_string(*canonical(op, *parse_schedule(text))), same);
}

// ---- limits
// --------------------------------------------------------------------------------------

TEST(ScheduleSpace, ConstraintsLeaveWhatKeepsToThem) {
  const OverlapOperator op{.kind = OverlapKind::all_gather_gemm,
                           .m = 64,
                           .n = 8,
                           .k = 16,
                           .type = kPlanType,
                           .ranks = 4};
  const Bytes serial = *memory_of(op, {});
  EXPECT_EQ(serial, (64 * 16 + 16 * 2 + 64 * 2) * 8);
  const auto cheap = schedules_of(op, {.at_most = serial});
  ASSERT_TRUE(cheap);
  EXPECT_LT(cheap->size(), schedules_of(op)->size());
  for (const Schedule& one : *cheap) EXPECT_EQ(*memory_of(op, one), serial);
  EXPECT_TRUE(schedules_of(op, {.at_most = serial - 1})->empty());
  const auto placed = *schedules_of(op, {.same_place = true});
  for (const Schedule& one : placed) {
    const Plan plan = plan_of(op, one);
    for (const PlanStep& step : plan.steps) EXPECT_NE(step.verb, PlanVerb::copy);
  }
  const auto deep = *schedules_of(op, {.no_split = ScheduleShape::depth});
  EXPECT_GT(deep.size(), 100u);
  for (const Schedule& one : deep) {
    const Plan plan = plan_of(op, one);
    for (const PlanStep& step : plan.steps)
      EXPECT_TRUE(step.verb != PlanVerb::gemm || step.from.rect.cols == op.k);
  }
  const auto high = *schedules_of(op, {.no_split = ScheduleShape::rows});
  EXPECT_GT(high.size(), 2u);
  for (const Schedule& one : high) {
    const Plan plan = plan_of(op, one);
    for (const PlanStep& step : plan.steps)
      EXPECT_TRUE(step.verb != PlanVerb::gemm || step.from.rect.rows == op.m);
  }
  const auto everywhere = *schedules_of(op, {.replicated = true});
  EXPECT_GT(everywhere.size(), 100u);
  for (const Schedule& one : everywhere) {
    Plan plan = *make_plan(op, one);
    for (unsigned rank = 0; rank < op.ranks; ++rank)
      plan.wanted.push_back({{rank, 0, {0, 0, op.m, op.k}}, {{"A"}}});
    EXPECT_TRUE(check_plan(plan)) << to_string(one);
  }
}

TEST(ScheduleSpace, RefusesOperatorsThatAreNone) {
  const OverlapOperator good{.m = 4, .n = 4, .k = 4, .type = kPlanType, .ranks = 2};
  const auto refused = [&](auto change) {
    OverlapOperator op = good;
    change(op);
    const auto plan = make_plan(op, {});
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_EQ(refused([](auto& op) { op.m = -1; }), "m is -1");
  EXPECT_EQ(refused([](auto& op) { op.ranks = 0; }), "0 ranks");
  EXPECT_EQ(refused([](auto& op) { op.ranks = 4097; }), "4097 ranks");
  EXPECT_EQ(refused([](auto& op) { op.ranks = 4096; }), "4096 ranks: over 1048576 transfers");
  EXPECT_NE(refused([](auto& op) { op.m = op.k = std::int64_t{1} << 40; }), "");
  EXPECT_NE(refused([](auto& op) { op.n = op.k = std::int64_t{1} << 39; }), "");
  EXPECT_EQ(refused([](auto& op) { op.type.bits = 7; }),
            "a type of elements that no plan may have");
  EXPECT_EQ(refused([](auto& op) { op.split = {4, 0, 0, 0}; }),
            "rows are shared out by hand in all-to-all-gemm only");
  const auto exchange = [&](std::vector<std::int64_t> split) {
    return refused([&](auto& op) {
      op.kind = OverlapKind::all_to_all_gemm;
      op.split = split;
    });
  };
  EXPECT_EQ(exchange({4, 0, 0}), "rows for 3 pairs of ranks; there are 4");
  EXPECT_EQ(exchange({4, 1, 0, 0}), "rows for 5; m is 4");
  EXPECT_EQ(exchange({5, -1, 0, 0}), "-1 rows from one rank to another");
  EXPECT_EQ(make_plan(good, {.chunks = 0}).error().message, "0 chunks");
  OverlapOperator wide{.m = 1 << 20, .n = 4, .k = 4, .type = kPlanType, .ranks = 600};
  EXPECT_EQ(make_plan(wide, *parse_schedule("ring rows even piece 16 put")).error().code,
            Code::too_large);
}

// What make_plan() makes, check_plan() has room for.
TEST(ScheduleSpace, RefusesPlansThatAreTooLargeToBeProved) {
  const OverlapOperator op{.m = 8192, .n = 512, .k = 512, .type = kPlanType, .ranks = 512};
  const auto refused = make_plan(op, *parse_schedule("at-once rows even piece 1 put"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_NE(refused.error().message.find(" steps for 512 ranks, which cannot be proved"),
            std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().hint.find("fewer chunks"), std::string::npos);
}

// Peers share lanes, as few as two of a rank, so that they can.
TEST(ScheduleSpace, GivesLargePlansAsManyLanesAsCanBeProved) {
  const OverlapOperator op{.m = 4096, .n = 64, .k = 64, .type = kPlanType, .ranks = 64};
  for (const auto& [schedule, lanes] : {std::pair("at-once rows even piece 4 put", 64u),
                                        std::pair("at-once rows even piece 16 put", 32u),
                                        std::pair("at-once rows even piece 16 get", 32u)}) {
    const auto made = make_plan(op, *parse_schedule(schedule));
    ASSERT_TRUE(made) << to_string(made.error());
    EXPECT_EQ(made->lanes, lanes) << schedule << ": " << made->steps.size();
  }
  const auto shared = make_plan(op, *parse_schedule("at-once rows even piece 16 put"));
  const auto facts = check_plan(*shared);
  EXPECT_TRUE(facts) << to_string(facts.error());
}

// So that ranks which prepare other sizes read of it.
TEST(ScheduleSpace, APlanSaysOfWhatItIs) {
  OverlapOperator op{.m = 200, .n = 100, .k = 300, .ranks = 2};
  const auto about = [&](const char* text) { return make_plan(op, *parse_schedule(text))->about; };
  EXPECT_EQ(about("ring rows own-first piece 1 put"),
            "all-gather-gemm of 200 x 100 x 300 f32: ring rows own-first piece 1 put");
  op.kind = OverlapKind::all_to_all_gemm;
  op.split = {50, 60, 70, 20};
  EXPECT_EQ(about("serial get"),
            "all-to-all-gemm of 200 x 100 x 300 f32: serial get, split 50 60 70 20");
}

// ---- text
// ----------------------------------------------------------------------------------------

TEST(ScheduleSpace, EverySentenceReadsBack) {
  const OverlapOperator op{.m = 400, .n = 60, .k = 50, .type = kPlanType, .ranks = 40};
  const auto schedules = *schedules_of(op);
  for (const OverlapKind kind : kKinds)
    for (const Schedule& schedule : schedules) {
      const ScheduleSentence sentence{kind, schedule};
      const auto read = parse_sentence(to_string(sentence));
      ASSERT_TRUE(read) << to_string(read.error());
      EXPECT_EQ(*read, sentence);
    }
  EXPECT_EQ(to_string(*parse_sentence(
                "gantry-schedule 1 all-gather-gemm ring rows own-first piece 4 put")),
            "gantry-schedule 1 all-gather-gemm ring rows own-first piece 4 put");
}

TEST(ScheduleSpace, RefusesSentencesThatAreNone) {
  for (const char* const text :
       {"", "gantry-schedule 2 all-gather-gemm serial put", "gantry-schedule 1",
        "gantry-schedule 1 ", "gantry-schedule 1 all-gather-gemm",
        "gantry-schedule 1 all-gather-gemm serial", "gantry-schedule 1 all-gather-gemm serial put ",
        "gantry-schedule 1 all-gather-gemm serial put put",
        "gantry-schedule 1 all-gather-gemm ring rows own-first piece 0 put",
        "gantry-schedule 1 all-gather-gemm ring rows own-first piece 4097 put",
        "gantry-schedule 1 all-gather-gemm ring rows own-first piece 04 put",
        "gantry-schedule 1 all-gather-gemm ring rows own-first piece -1 put",
        "gantry-schedule 1 all-gather-gemm  ring rows own-first piece 4 put",
        "gantry-schedule 1 gather ring rows own-first piece 4 put"}) {
    const auto read = parse_sentence(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::invalid_argument) << text;
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  }
}

TEST(ScheduleSpace, SentencesAreQuotedAtTheirBeginning) {
  const std::string word(1 << 20, 'x');
  for (const std::string& text :
       {word, "serial " + word, "serial put " + word, "ring rows even step " + word})
    EXPECT_LT(parse_schedule(text).error().message.size(), 200u) << text.substr(0, 30);
  EXPECT_LT(parse_overlap_kind(word).error().message.size(), 200u);
}

TEST(ScheduleSpace, ASentenceIsNoSchedule) {
  const auto read =
      parse_schedule("gantry-schedule 1 all-gather-gemm ring rows own-first piece 2 put");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "a whole sentence where a schedule belongs");
  EXPECT_EQ(read.error().hint,
            "parse_sentence() reads it; or leave 'gantry-schedule 1 OPERATOR' out");
}

}  // namespace
}  // namespace gantry
