// What the check lets pass comes out right, in whatever order it is run; and mutants of plans that
// come out wrong are refused.
#include <gtest/gtest.h>

#include "ranks/schedule/test_plans.hpp"

namespace gantry {
namespace {

using test::pick;
using test::PlanRunner;
using test::Random;

constexpr int kOrders = 4;

Plan some_plan(Random& random) {
  return pick(random, 0, 1) == 0 ? test::gather_plan(random) : test::scatter_plan(random);
}

bool comes_out_right(const Plan& plan, Random& random) {
  for (int order = 0; order < kOrders; ++order) {
    PlanRunner runner(plan, random);
    if (!runner.run() || !runner.has_what_is_wanted()) return false;
  }
  return true;
}

TEST(PlanCheck, PassesWhatComesOutRight) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const Plan plan = some_plan(random);
    const auto facts = check_plan(plan);
    ASSERT_TRUE(facts) << to_string(facts.error()) << '\n' << to_text(plan);
    ASSERT_TRUE(comes_out_right(plan, random)) << to_text(plan);
  }
}

/// A small change. False: there was nothing to change.
bool mutate(Plan& plan, Random& random) {
  if (plan.steps.empty()) return false;
  const auto last = static_cast<std::int64_t>(plan.steps.size()) - 1;
  PlanStep& step = plan.steps[static_cast<std::size_t>(pick(random, 0, last))];
  PlanPlace* const places[] = {&step.to, &step.from, &step.other};
  PlanPlace& place = *places[pick(random, 0, step.verb == PlanVerb::gemm ? 2 : 1)];
  switch (pick(random, 0, 9)) {
    case 0:  // one that waits for less
      if (step.after.empty()) return false;
      step.after.erase(step.after.begin() +
                       pick(random, 0, static_cast<std::int64_t>(step.after.size()) - 1));
      return true;
    case 1:
      place.rect.row += pick(random, 0, 1) * 2 - 1;
      return true;
    case 2:
      place.rect.col += pick(random, 0, 1) * 2 - 1;
      return true;
    case 3:
      step.adds = !step.adds;
      return step.verb == PlanVerb::gemm;
    case 4: {  // two in each other's turn; whoever waits for one waits for the other
      PlanStep& other = plan.steps[static_cast<std::size_t>(pick(random, 0, last))];
      if (&other == &step) return false;
      std::swap(step, other);
      return true;
    }
    case 5:  // one that does nothing; who waited for it still does
      if (step.verb == PlanVerb::put) {
        step = {PlanVerb::signal, step.rank, step.lane, step.to, {}, {}, false, step.after};
        return true;
      }
      step.to.rect.rows = step.from.rect.rows = 0;
      return true;
    case 6:
      step.lane = static_cast<unsigned>(pick(random, 0, plan.lanes - 1));
      return true;
    case 7:
      if (step.verb == PlanVerb::gemm || step.verb == PlanVerb::put) return false;
      step.verb = step.verb == PlanVerb::reduce ? PlanVerb::copy : PlanVerb::reduce;
      return true;
    case 8: {  // one row or column less
      if (step.to.rect.rows == 0) return false;
      --step.to.rect.rows;
      --step.from.rect.rows;
      return true;
    }
    default:
      step.to.rank = static_cast<unsigned>(pick(random, 0, plan.ranks - 1));
      return step.verb == PlanVerb::put;
  }
}

TEST(PlanCheck, RefusesEachMutantThatComesOutWrong) {
  Random random(2);
  int refused = 0;
  int passed = 0;
  for (int i = 0; i < 10'000; ++i) {
    Plan plan = some_plan(random);
    if (!mutate(plan, random)) continue;
    if (check_plan(plan)) {
      ++passed;
      ASSERT_TRUE(comes_out_right(plan, random)) << to_text(plan);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000);
  EXPECT_GT(passed, 300) << "changes that change nothing";
}

TEST(PlanText, IsReadBackAsTheSamePlan) {
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const Plan plan = some_plan(random);
    const std::string text = to_text(plan);
    const auto again = parse_plan(text);
    ASSERT_TRUE(again) << to_string(again.error()) << '\n' << text;
    EXPECT_EQ(to_text(*again), text);
    EXPECT_TRUE(check_plan(*again));
  }
}

}  // namespace
}  // namespace gantry
