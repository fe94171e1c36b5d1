// What is chosen, beside every point of the space.
#include <gantry/plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ranks/schedule/choice/rules.hpp"

namespace gantry {
namespace {

using ChoiceRandom = std::mt19937_64;
constexpr DataType kHalf{DataType::bfloat, 16, 1};

std::int64_t between(ChoiceRandom& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

OverlapOperator large_operator(ChoiceRandom& random) {
  constexpr OverlapKind kAll[] = {OverlapKind::all_gather_gemm, OverlapKind::gemm_reduce_scatter,
                                  OverlapKind::all_to_all_gemm};
  return {.kind = kAll[between(random, 0, 2)],
          .m = between(random, 100, 20'000),
          .n = between(random, 100, 20'000),
          .k = between(random, 100, 20'000),
          .type = kHalf,
          .ranks = static_cast<unsigned>(between(random, 2, 8))};
}

/// Links for which transfers take `rho` of the product, and starts of a few parts in a thousand.
ScheduleCosts balanced_costs(const OverlapOperator& op, double rho, Topology topology) {
  ScheduleCosts costs;
  costs.product = {1e4, 1e12, 64, 64, 64, 1e11};
  const double product = 2 * static_cast<double>(op.m) * static_cast<double>(op.n) *
                         static_cast<double>(op.k) / op.ranks / 1e12;
  const double columns =
      static_cast<double>(op.kind == OverlapKind::gemm_reduce_scatter ? op.n : op.k);
  const double exchange = op.kind == OverlapKind::all_to_all_gemm ? op.ranks : 1;
  const double received = static_cast<double>(op.m) * columns * 2 / exchange;
  costs.topology = topology;
  costs.port_bytes_per_s = received / (rho * product);
  costs.link.bytes_per_s =
      topology == Topology::mesh ? costs.port_bytes_per_s / (op.ranks - 1) : costs.port_bytes_per_s;
  costs.link.start_ns = 2e4;
  costs.copy = {5e3, 2e10};
  costs.reduce = {5e3, 1.5e10};
  return costs;
}

double seconds_of_point(const OverlapOperator& op, const Schedule& schedule,
                        const ScheduleCosts& costs) {
  return simulate(*make_plan(op, schedule), costs)->seconds;
}

double best_of_all(const OverlapOperator& op, const ScheduleCosts& costs) {
  const auto schedules = schedules_of(op);
  double best = 1e300;
  for (const Schedule& one : *schedules) best = std::min(best, seconds_of_point(op, one, costs));
  return best;
}

struct Score {
  int cases = 0;
  int near = 0;  // within 2 % of the best
  double worst = 1;
  void note(double seconds, double best) {
    ++cases;
    near += seconds <= best * 1.02;
    worst = std::max(worst, seconds / best);
  }
};

TEST(Choice, IsNearTheBestOfTheWholeSpace) {
  ChoiceRandom random(5);
  Score chosen;
  Score searched;
  for (int i = 0; i < 24; ++i) {
    const OverlapOperator op = large_operator(random);
    const double rhos[] = {0.1, 0.25, 0.5, 1, 2, 4};
    const ScheduleCosts costs =
        balanced_costs(op, rhos[between(random, 0, 5)],
                       between(random, 0, 1) == 0 ? Topology::mesh : Topology::switched);
    const double best = best_of_all(op, costs);
    const auto choice = choose(op, costs);
    ASSERT_TRUE(choice) << to_string(choice.error());
    chosen.note(choice->predicted_s, best);
    EXPECT_LE(choice->predicted_s, choice->serial_s);
    const auto found = search(op, costs);
    ASSERT_TRUE(found) << to_string(found.error());
    searched.note(found->predicted_s, best);
    EXPECT_LE(found->evaluated, std::max<std::size_t>(4, found->space / 10));
    EXPECT_EQ(seconds_of_point(op, found->schedule, costs), found->predicted_s);
  }
  EXPECT_GE(chosen.near, chosen.cases * 81 / 100) << chosen.worst;
  EXPECT_LE(chosen.worst, 1.15);
  EXPECT_GE(searched.near, searched.cases * 90 / 100) << searched.worst;
  EXPECT_LE(searched.worst, 1.10);
}

// Between powers of two as well, which the rules leave out.
TEST(Choice, TheSearchGoesOnFromWhereTheRulesBegin) {
  ChoiceRandom random(6);
  int beyond = 0;
  for (int i = 0; i < 10; ++i) {
    const OverlapOperator op = large_operator(random);
    const ScheduleCosts costs = balanced_costs(op, 1, Topology::mesh);
    const auto choice = choose(op, costs, {.most_simulated = 1000});
    const auto found = search(op, costs);
    beyond += found->predicted_s < choice->predicted_s;
  }
  EXPECT_GT(beyond, 0);
}

TEST(Choice, TakesSerialBelowTheLeastGain) {
  const OverlapOperator op{.kind = OverlapKind::all_to_all_gemm,
                           .m = 262'144,
                           .n = 28'672,
                           .k = 8192,
                           .type = kHalf,
                           .ranks = 8};
  const ScheduleCosts costs = *published_costs("published/mi300x-8");
  const auto eager = choose(op, costs, {.least_gain = 0});
  EXPECT_LT(eager->predicted_s, eager->serial_s);
  EXPECT_GT(eager->predicted_s, eager->serial_s * 0.97);
  const auto choice = choose(op, costs);
  EXPECT_EQ(choice->schedule, Schedule{});
  EXPECT_EQ(choice->predicted_s, choice->serial_s);
  EXPECT_EQ(choice->decided.substr(0, 39), "serial: the best of the others gains 2.");
}

TEST(Choice, EstimatesCountCopiesAndSums) {
  const OverlapOperator op{.kind = OverlapKind::gemm_reduce_scatter,
                           .m = 8192,
                           .n = 8192,
                           .k = 8192,
                           .type = kHalf,
                           .ranks = 4};
  ScheduleCosts costs = balanced_costs(op, 0.1, Topology::mesh);
  const auto estimate = [&](const char* text) {
    const Schedule schedule = *parse_schedule(text);
    return Estimator(*OperatorSplit::of(op, schedule), costs).seconds_of_schedule(schedule);
  };
  const double staged = estimate("at-once rows even step 4 put");
  const double pieces = estimate("at-once rows even piece 4 put");
  costs.copy.bytes_per_s /= 2;
  EXPECT_GT(estimate("at-once rows even step 4 put"), staged);
  EXPECT_EQ(estimate("at-once rows even piece 4 put"), pieces);
  costs.reduce.bytes_per_s /= 2;
  EXPECT_GT(estimate("at-once rows even piece 4 put"), pieces);
}

TEST(Choice, IsSerialWhereNothingIsGained) {
  OverlapOperator op{.kind = OverlapKind::all_gather_gemm,
                     .m = 4096,
                     .n = 4096,
                     .k = 4096,
                     .type = kHalf,
                     .ranks = 4};
  ScheduleCosts costs = balanced_costs(op, 0.001, Topology::mesh);
  costs.link.start_ns = 0;
  const auto hidden = choose(op, costs);
  ASSERT_TRUE(hidden);
  EXPECT_EQ(hidden->schedule, Schedule{});
  EXPECT_EQ(hidden->decided, "serial: nothing-to-hide");
  EXPECT_EQ(choose(op, balanced_costs(op, 1000, Topology::mesh))->schedule, Schedule{});
  op.m = op.n = op.k = 64;  // small: all of it is starts
  const auto small = choose(op, balanced_costs(op, 1, Topology::mesh), {.without = {"all-start"}});
  ASSERT_TRUE(small);
  EXPECT_EQ(small->schedule, Schedule{}) << small->decided;
  op.ranks = 1;
  EXPECT_EQ(choose(op, costs)->decided, "serial: none is different");
  op.ranks = 4;
  op.k = 0;
  EXPECT_EQ(choose(op, costs)->schedule, Schedule{});
}

TEST(Choice, SaysWhatItThoughtOfEach) {
  const OverlapOperator op{.kind = OverlapKind::all_gather_gemm,
                           .m = 8192,
                           .n = 8192,
                           .k = 8192,
                           .type = kHalf,
                           .ranks = 4};
  const ScheduleCosts costs = balanced_costs(op, 1, Topology::mesh);
  const auto choice = choose(op, costs);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->candidates.size(), schedules_of(op)->size());
  unsigned simulated = 0;
  for (const ChoiceCandidate& one : choice->candidates) {
    EXPECT_EQ(one.predicted_s > 0, one.pruned_by.empty());
    if (!one.pruned_by.empty()) continue;
    ++simulated;
    EXPECT_EQ(one.predicted_s, seconds_of_point(op, one.schedule, costs));
    EXPECT_GE(one.predicted_s, choice->predicted_s);
    EXPECT_NEAR(one.predicted_s,
                simulate(*make_plan(op, {}), costs)->ranks[0].compute_alone_s +
                    one.losses.decomposition_s + one.losses.contention_s + one.losses.exposed_s,
                one.predicted_s * 1e-9);
  }
  EXPECT_EQ(simulated, 13u);
  EXPECT_NE(choice->schedule.pattern, SchedulePattern::serial);
  EXPECT_NE(choice->decided.find("of serial's time"), std::string::npos);
  EXPECT_GT(choice->serial_s / choice->predicted_s, 1.45);
}

// A schedule whose time nobody knows is none that is chosen for it.
TEST(Choice, WithNothingSimulatedTheRulesDecide) {
  const OverlapOperator op{.kind = OverlapKind::all_gather_gemm,
                           .m = 8192,
                           .n = 8192,
                           .k = 8192,
                           .type = kHalf,
                           .ranks = 4};
  const ScheduleCosts costs = balanced_costs(op, 1, Topology::mesh);
  const auto rules = choose(op, costs, {.rules_only = true});
  const auto none = choose(op, costs, {.most_simulated = 0});
  ASSERT_TRUE(none) << to_string(none.error());
  EXPECT_GT(none->predicted_s, 0);
  EXPECT_EQ(none->predicted_s, rules->predicted_s);
  EXPECT_EQ(none->schedule, rules->schedule);
  EXPECT_EQ(none->decided, rules->decided);
  EXPECT_FALSE(none->is_simulated);
  EXPECT_TRUE(choose(op, costs, {.most_simulated = 1})->is_simulated);
}

TEST(Choice, EachRuleCanBeSwitchedOff) {
  const OverlapOperator op{.kind = OverlapKind::all_gather_gemm,
                           .m = 1024,
                           .n = 4096,
                           .k = 64,
                           .type = kHalf,
                           .ranks = 4};
  std::vector<std::string> all;
  for (const ChoiceRule& rule : choice_rules()) {
    ScheduleCosts costs = balanced_costs(op, 1, Topology::mesh);
    if (rule.name == "nothing-to-hide") costs = balanced_costs(op, 0.001, Topology::mesh);
    if (rule.name == "many-steps") continue;  // below
    if (rule.name == "nothing-to-hide") costs.link.start_ns = 0;
    const auto pruned = [&](const ChoiceOptions& options) {
      const auto choice = choose(op, costs, options);
      return std::ranges::count(choice->candidates, rule.name, &ChoiceCandidate::pruned_by);
    };
    EXPECT_GT(pruned({.rules_only = true}), 0) << rule.name;
    EXPECT_EQ(pruned({.without = {std::string(rule.name)}, .rules_only = true}), 0) << rule.name;
    EXPECT_FALSE(rule.reason.empty());
    all.emplace_back(rule.name);
  }
  const ScheduleCosts costs = balanced_costs(op, 1, Topology::mesh);
  const auto open = choose(op, costs, {.without = all, .most_simulated = 1000});
  ASSERT_TRUE(open);
  for (const ChoiceCandidate& one : open->candidates) EXPECT_TRUE(one.pruned_by.empty());
  EXPECT_EQ(to_string(choose(op, costs, {.without = {"luck"}}).error()).substr(0, 24),
            "there is no rule 'luck';");
}

TEST(Choice, HundredsOfRanksLeaveOutPlansThatAreTooLarge) {
  const OverlapOperator op{.kind = OverlapKind::all_gather_gemm,
                           .m = 1'000'000,
                           .n = 40'000,
                           .k = 4000,
                           .type = kHalf,
                           .ranks = 300};
  ScheduleCosts costs = balanced_costs(op, 1, Topology::mesh);
  costs.product = {0, 1e12, 0, 0, 0, 1e30};  // the finer the better
  costs.link.start_ns = 0;
  const auto few = choose(op, costs, {.rules_only = true});
  ASSERT_TRUE(few) << to_string(few.error());
  EXPECT_EQ(few->schedule.chunks, 1u);
  // What rules leave has too many pieces to be proved.
  const auto one = choose(op, costs, {.most_simulated = 1});
  ASSERT_TRUE(one) << to_string(one.error());
  EXPECT_TRUE(make_plan(op, one->schedule)) << to_string(one->schedule);
  const auto all =
      choose(op, costs, {.without = {"many-steps", "ring-on-mesh"}, .most_simulated = 1});
  ASSERT_TRUE(all) << to_string(all.error());
  EXPECT_GE(std::ranges::count(all->candidates, "too-large", &ChoiceCandidate::pruned_by), 1);
  EXPECT_GT(all->predicted_s, 0);
  EXPECT_TRUE(make_plan(op, all->schedule)) << to_string(all->schedule);
}

TEST(Choice, SaysWhatCannotBeKeptTo) {
  const OverlapOperator op{
      .kind = OverlapKind::gemm_reduce_scatter, .m = 8, .n = 8, .k = 8, .ranks = 2};
  const ScheduleCosts costs;
  const auto refused = [&](const ScheduleConstraints& constraints) {
    return choose(op, costs, {.constraints = constraints}).error();
  };
  EXPECT_EQ(refused({.replicated = true}).message, "replicated is for all-gather-gemm only");
  EXPECT_EQ(search(op, costs, {.replicated = true}).error().code, Code::invalid_argument);
  const std::string least = refused({.at_most = 10}).message;
  Bytes bytes = ~Bytes{0};
  const auto all = *schedules_of(op);
  for (const Schedule& one : all) bytes = std::min(bytes, *memory_of(op, one));
  EXPECT_EQ(least, "no schedule keeps to the constraints: the least of them needs " +
                       std::to_string(bytes) + " bytes a rank");
  EXPECT_TRUE(choose(op, costs, {.constraints = {.at_most = bytes}}));
}

TEST(Choice, KeepsToConstraints) {
  const OverlapOperator op{.kind = OverlapKind::gemm_reduce_scatter,
                           .m = 4096,
                           .n = 4096,
                           .k = 4096,
                           .type = kHalf,
                           .ranks = 4};
  const ScheduleCosts costs = balanced_costs(op, 1, Topology::switched);
  const Bytes serial = *memory_of(op, {});
  const auto all = schedules_of(op, {.at_most = serial});
  ASSERT_FALSE(all->empty());
  const auto choice = choose(op, costs, {.constraints = {.at_most = serial}});
  ASSERT_TRUE(choice);
  EXPECT_LE(*memory_of(op, choice->schedule), serial);
  EXPECT_EQ(choose(op, costs, {.constraints = {.at_most = 1000}}).error().code, Code::unsupported);
  EXPECT_EQ(search(op, costs, {.at_most = 1000}).error().code, Code::unsupported);
  // Only a get: no rule leaves the last one out.
  ScheduleCosts bad = costs;
  bad.link.bytes_per_s = -1;
  EXPECT_EQ(choose(op, bad, {.rules_only = true}).error().code, Code::invalid_argument);
}

// Below what those take that people write by hand only arrivals in turns of one place are left.
TEST(Choice, ASearchFindsAPlanWhereNoFixedScheduleFits) {
  const OverlapOperator op{.kind = OverlapKind::gemm_reduce_scatter,
                           .m = 4096,
                           .n = 4096,
                           .k = 4096,
                           .type = kHalf,
                           .ranks = 4};
  Bytes least_fixed = ~Bytes{0};
  for (const char* const text :
       {"serial put", "serial get", "ring rows own-first piece 1 put",
        "ring rows own-first piece 4 put", "at-once rows own-first piece 1 put",
        "at-once rows even piece 4 put", "at-once rows own-first step 4 put",
        "at-once depth even step 4 put", "at-once depth own-first piece 4 get"})
    least_fixed = std::min(least_fixed, *memory_of(op, *parse_schedule(text)));
  const Bytes at_most = least_fixed - 1;
  const ScheduleCosts costs = balanced_costs(op, 1, Topology::mesh);
  const auto found = search(op, costs, {.at_most = at_most});
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_LE(found->evaluated, found->space / 10);
  const Plan plan = *make_plan(op, found->schedule);
  const auto facts = check_plan(plan, {at_most});
  ASSERT_TRUE(facts) << to_string(facts.error());
  EXPECT_LE(*std::ranges::max_element(facts->memory), at_most);
  EXPECT_EQ(simulate(plan, costs)->seconds, found->predicted_s);
  const auto choice = choose(op, costs, {.constraints = {.at_most = at_most}});
  ASSERT_TRUE(choice) << to_string(choice.error());
  EXPECT_LE(*memory_of(op, choice->schedule), at_most);
}

TEST(Choice, OfEqualsItIsTheSimpler) {
  EXPECT_TRUE(is_simpler({}, {.path = SchedulePath::get}));
  EXPECT_TRUE(is_simpler({.path = SchedulePath::get}, {.pattern = SchedulePattern::ring}));
  EXPECT_TRUE(is_simpler(*parse_schedule("ring depth even step 2 put"),
                         *parse_schedule("ring rows even step 3 put")));
  const Schedule ring{.pattern = SchedulePattern::ring};
  EXPECT_TRUE(is_better({}, 1, ring, 1));
  EXPECT_TRUE(is_better({}, 1 + 1e-12, ring, 1));
  EXPECT_FALSE(is_better({}, 1 + 1e-6, ring, 1));
  EXPECT_FALSE(is_better(ring, 1, {}, 1));
  EXPECT_TRUE(is_better(ring, 1 - 1e-6, {}, 1));
  const OverlapOperator op{.kind = OverlapKind::all_gather_gemm,
                           .m = 4096,
                           .n = 4096,
                           .k = 4096,
                           .type = kHalf,
                           .ranks = 4};
  ScheduleCosts free = balanced_costs(op, 0.5, Topology::mesh);
  free.product = {0, 1e12, 0, 0, 0, 1e30};
  free.link.start_ns = free.copy.start_ns = 0;
  free.copy.bytes_per_s = 1e30;
  // The products hide all transfers whatever the chunks are: two suffice, or one.
  const auto choice = choose(op, free, {.most_simulated = 1000});
  ASSERT_TRUE(choice);
  for (const ChoiceCandidate& one : choice->candidates)
    EXPECT_TRUE(one.predicted_s == 0 || one.predicted_s > choice->predicted_s * (1 + 1e-9) ||
                !is_simpler(one.schedule, choice->schedule))
        << to_string(one.schedule);
}

}  // namespace
}  // namespace gantry
