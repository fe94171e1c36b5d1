// Sharded products over ranks that are threads here: what each rank gets, element by element.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>

#include "core/base/test_effort.hpp"
#include "core/channel/test_support.hpp"
#include "ranks/schedule/product/contest.hpp"
#include "ranks/schedule/product/test_sharded.hpp"

namespace gantry {
namespace {

using test::kFloat;
using test::pick;
using test::Random;
using test::run_and_compare;
using test::Via;

TEST(ShardedProducts, AnySchedule) {
  Random random(11);
  for (int i = 0; i < 60; ++i) {
    const OverlapOperator op = test::random_operator(random);
    ShardedProductOptions options;
    options.schedule = test::random_schedule(op, random);
    test::at_all_ranks(op.ranks, i % 3 == 0 ? Via::stream : Via::shared, [&](Group& group) {
      auto product = ShardedProduct::prepare(group, op, options);
      ASSERT_TRUE(product) << to_string(product.error());
      for (int run = 0; run < 2; ++run) run_and_compare(*product, op, group.rank());
    });
  }
}

// How far f32 is from the exact result, whatever the order of its sums: never beyond the bound of
// their roundings. The histogram counts units in the last place of the result, by powers of two.
TEST(ShardedProducts, RandomNumbersAreWithinTheBoundOfTheirRoundings) {
  Random random(12);
  std::mutex mutex;
  std::array<std::size_t, 12> histogram{};
  for (int i = 0; i < 24; ++i) {
    OverlapOperator op = test::random_operator(random);
    op.k += 100;
    ShardedProductOptions options;
    options.schedule = test::random_schedule(op, random);
    const auto value = [seed = static_cast<std::uint64_t>(i)](unsigned matrix, std::int64_t row,
                                                              std::int64_t col) {
      const auto mixed = static_cast<std::uint64_t>(row) * 0x9e3779b97f4a7c15 ^
                         static_cast<std::uint64_t>(col) * 0xc2b2ae3d27d4eb4f ^ (seed * 2 + matrix);
      return static_cast<float>(std::minstd_rand(static_cast<std::uint32_t>(mixed >> 7))() %
                                65537) /
                 32768.0F -
             1.0F;
    };
    test::at_all_ranks(op.ranks, Via::shared, [&](Group& group) {
      auto product = ShardedProduct::prepare(group, op, options);
      ASSERT_TRUE(product) << to_string(product.error());
      test::run_and_visit(*product, op, group.rank(), value,
                          [&](float seen, double sum, double magnitude) {
                            const double off = std::abs(static_cast<double>(seen) - sum);
                            ASSERT_LE(off, static_cast<double>(op.k + 1) * 0x1p-23 * magnitude);
                            const double unit = std::ldexp(1.0, std::ilogb(sum) - 23);
                            const double units = std::max(off / unit, 0.5);
                            const auto bin = static_cast<std::size_t>(std::ilogb(units) + 1);
                            const std::lock_guard lock(mutex);
                            ++histogram[std::min(bin, histogram.size() - 1)];
                          });
    });
  }
  std::string text;
  for (std::size_t bin = 0; bin < histogram.size(); ++bin)
    text += fmt::format(" <{}: {}", 1 << bin, histogram[bin]);
  RecordProperty("ulps", text);
  EXPECT_GT(histogram[0], histogram[3]);
}

TEST(ShardedProducts, AllRanksChooseTheSame) {
  OverlapOperator op{OverlapKind::all_gather_gemm, 64, 60, 48, kFloat, 3};
  std::mutex mutex;
  std::vector<std::string> explained;
  std::set<Schedule> tried;
  const test::ScratchDirectory folder;
  const std::string log = folder.path() + "/log";
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    ShardedProductOptions options;
    options.log = log;
    auto product = ShardedProduct::prepare(group, op, options);
    ASSERT_TRUE(product) << to_string(product.error());
    run_and_compare(*product, op, group.rank());
    run_and_compare(*product, op, group.rank());
    const Choice& choice = product->choice();
    const std::lock_guard lock(mutex);
    explained.push_back(product->explain());
    for (const MeasuredSchedule& one : choice.measured) tried.insert(one.schedule);
  });
  ASSERT_EQ(explained.size(), 3u);
  for (const std::string& text : explained) EXPECT_EQ(text, explained.front());
  // Rank 0 noted what was tried and both runs, with the sentence, which reads back.
  std::ifstream file(log);
  unsigned runs = 0;
  std::set<Schedule> noted;
  for (std::string line; std::getline(file, line);) {
    EXPECT_TRUE(line.starts_with("gantry-schedule-log 1 ranks=3 m=64 n=60 k=48 type=f32 ")) << line;
    const auto sentence = parse_sentence(line.substr(line.find("gantry-schedule 1")));
    ASSERT_TRUE(sentence) << line;
    if (line.find(" measured_s=") != std::string::npos) ++runs;
    if (line.find(" tried_s=") != std::string::npos) noted.insert(sentence->schedule);
  }
  EXPECT_EQ(runs, 2u);
  EXPECT_EQ(noted, tried);
}

/// Costs of another machine, by which pieces hide all that moves.
ScheduleCosts dreamt_costs() {
  ScheduleCosts costs;
  costs.product = {0, 1e9, 0, 0, 0, 1e12};
  costs.link = {0, 5e7};
  return costs;
}

TEST(ShardedProducts, WhatIsPredictedIsNotBelievedWhereItIsSlower) {
  const OverlapOperator op{OverlapKind::gemm_reduce_scatter, 64, 64, 64, kFloat, 3};
  ShardedProductOptions options;
  options.costs = dreamt_costs();
  options.choice.without = {"all-start", "thin-pieces", "put-only"};
  options.measure_best = 0;
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    auto product = ShardedProduct::prepare(group, op, options);
    ASSERT_TRUE(product) << to_string(product.error());
    EXPECT_TRUE(product->choice().measured.empty());
    EXPECT_FALSE(product->choice().schedule == Schedule{}) << product->explain();
    run_and_compare(*product, op, group.rank());
  });
  options.measure_best = 3;
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    auto product = ShardedProduct::prepare(group, op, options);
    ASSERT_TRUE(product) << to_string(product.error());
    const Choice& choice = product->choice();
    ASSERT_GE(choice.measured.size(), 4u);
    EXPECT_EQ(std::ranges::count(choice.measured, Schedule{}, &MeasuredSchedule::schedule), 1);
    EXPECT_NE(choice.decided.find(" that were run in "), std::string::npos) << choice.decided;
    const MeasuredSchedule& best = choice.measured.front();
    EXPECT_EQ(choice.schedule, best.schedule);
    EXPECT_LE(best.seconds,
              std::ranges::find(choice.measured, Schedule{}, &MeasuredSchedule::schedule)->seconds);
    run_and_compare(*product, op, group.rank());
  });
}

TEST(ShardedProducts, NoMoreIsRunAtATimeThanMayTakeMemory) {
  const OverlapOperator op{OverlapKind::gemm_reduce_scatter, 64, 64, 64, kFloat, 3};
  ShardedProductOptions options;
  options.costs = dreamt_costs();
  options.choice.constraints.at_most = *memory_of(op, {});
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    auto product = ShardedProduct::prepare(group, op, options);
    ASSERT_TRUE(product) << to_string(product.error());
    EXPECT_TRUE(product->choice().measured.empty());
    run_and_compare(*product, op, group.rank());
  });
  // Room for arrivals of one more.
  options.choice.constraints.at_most += Bytes{64} * 64 * sizeof(float);
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    auto product = ShardedProduct::prepare(group, op, options);
    ASSERT_TRUE(product) << to_string(product.error());
    EXPECT_EQ(product->choice().measured.size(), 2u) << product->explain();
    run_and_compare(*product, op, group.rank());
  });
}

/// Each rank's answer to a contest among what `spoil` has made of its choice and options.
std::vector<Choice> contest_at_all(
    const OverlapOperator& op,
    const std::function<void(unsigned rank, Choice&, ShardedProductOptions&)>& spoil) {
  std::mutex mutex;
  std::vector<Choice> taken;
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    ShardedProductOptions options;
    options.choice.without = {"all-start", "thin-pieces", "put-only"};
    Choice choice = choose(op, dreamt_costs(), options.choice).value();
    spoil(group.rank(), choice, options);
    const auto chosen = choose_by_running(group, op, std::move(choice), options,
                                          Deadline::after(std::chrono::minutes(1)));
    ASSERT_TRUE(chosen) << to_string(chosen.error());
    EXPECT_TRUE(group.state());
    const std::lock_guard lock(mutex);
    taken.push_back(*chosen);
  });
  for (const Choice& one : taken) {
    EXPECT_EQ(one.decided, taken.front().decided);
    EXPECT_EQ(one.schedule, taken.front().schedule);
  }
  return taken;
}

TEST(ShardedProducts, WhatOneRankHasNoMemoryForIsRunByNone) {
  const OverlapOperator op{OverlapKind::gemm_reduce_scatter, 64, 64, 64, kFloat, 3};
  const auto taken = contest_at_all(op, [&](unsigned rank, Choice&, auto& options) {
    const Bytes room = *memory_of(op, {}) + Bytes{64} * 64 * sizeof(float);
    if (rank == 1) options.choice.constraints.at_most = room;
  });
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken.front().measured.size(), 2u) << taken.front().decided;
  EXPECT_NE(taken.front().decided.find("; left out: "), std::string::npos);
  EXPECT_NE(taken.front().decided.find(": rank 1: "), std::string::npos) << taken.front().decided;
}

TEST(ShardedProducts, WhatHasNoPlanIsLeftOut) {
  const OverlapOperator op{OverlapKind::gemm_reduce_scatter, 64, 64, 64, kFloat, 3};
  Schedule wrong{.pattern = SchedulePattern::ring};
  wrong.chunks = 1 << 20;
  const auto taken = contest_at_all(op, [&](unsigned, Choice& choice, auto& options) {
    options.measure_best = 100;
    if (kTestStride > 1 && choice.candidates.size() > 4)  // each of them is measured
      choice.candidates.erase(choice.candidates.begin() + 4, choice.candidates.end());
    choice.candidates.push_back({wrong, {}, choice.predicted_s, choice.predicted_s, {}});
  });
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_GE(taken.front().measured.size(), 2u);
  EXPECT_EQ(std::ranges::count(taken.front().measured, wrong, &MeasuredSchedule::schedule), 0);
  EXPECT_NE(taken.front().decided.find(to_string(wrong) + ": rank 0: "), std::string::npos)
      << taken.front().decided;
}

TEST(ShardedProducts, FinalistsAreOfSeveralKinds) {
  Choice choice;
  const auto add = [&](const char* text, double predicted_s, const char* pruned_by = "") {
    choice.candidates.push_back({*parse_schedule(text), pruned_by, predicted_s, predicted_s, {}});
  };
  add("serial put", 20);
  add("at-once depth own-first piece 16 put", 10);
  add("at-once depth own-first piece 8 put", 10.1);
  add("at-once depth own-first piece 4 put", 10.2);
  add("at-once rows own-first piece 4 put", 10.8);
  add("at-once rows own-first piece 2 put", 10.9);
  add("ring rows own-first piece 2 put", 13.1);
  add("at-once rows own-first step 4 put", 0, "estimate");
  choice.schedule = choice.candidates[1].schedule;
  choice.predicted_s = 10;
  const auto texts = [&](unsigned count) {
    std::vector<std::string> all;
    for (const Schedule& one : finalists(choice, count)) all.push_back(to_string(one));
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(1), (Texts{"at-once depth own-first piece 16 put", "serial put"}));
  EXPECT_EQ(texts(2), (Texts{"at-once depth own-first piece 16 put", "serial put",
                             "at-once rows own-first piece 4 put"}));
  EXPECT_EQ(texts(3),
            (Texts{"at-once depth own-first piece 16 put", "serial put",
                   "at-once rows own-first piece 4 put", "at-once depth own-first piece 8 put"}));
  EXPECT_EQ(texts(100).size(), 6u);  // one takes too long, of one nothing is known
  choice.candidates.resize(1);
  choice.schedule = {};
  EXPECT_TRUE(texts(3).empty());
}

TEST(ShardedProducts, RowsAreMeasuredByTheCpuThatTheyTake) {
  // Rows of 64 bytes at least: 16,384 in a mebibyte.
  const OverlapOperator op{OverlapKind::all_gather_gemm, 64, 64, 64, kFloat, 2};
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    const auto costs = measure_costs(group, op);
    ASSERT_TRUE(costs) << to_string(costs.error());
    EXPECT_GT(costs->cpu_s_per_transfer, 0);
    EXPECT_GT(costs->cpu_s_per_byte, 0);
    EXPECT_GT(costs->cpu_s_per_row, 0);
    // Less than a transfer of its own.
    EXPECT_LT(costs->cpu_s_per_row, costs->cpu_s_per_transfer);
    EXPECT_EQ(costs->product.n_knee, 0);
  });
}

// Each of them ends preparing at one rank alone, before anything is said to the others.
TEST(ShardedProducts, WhatFailsAtOneRankEndsAll) {
  const OverlapOperator op{OverlapKind::all_gather_gemm, 64, 60, 48, kFloat, 3};
  std::vector<std::function<void(ShardedProductOptions&)>> faults;
  faults.emplace_back([](auto& one) { one.choice.constraints.at_most = 1; });
  faults.emplace_back([](auto& one) { one.costs.emplace().link.bytes_per_s = -1; });
  faults.emplace_back([](auto& one) {
    one.schedule = Schedule{};
    one.schedule->chunks = 1 << 20;
  });
  for (std::size_t fault = 0; fault < faults.size(); ++fault) {
    test::at_all_ranks(op.ranks, Via::shared, [&](Group& group) {
      ShardedProductOptions options;
      if (group.rank() == 1) faults[fault](options);
      const auto product = ShardedProduct::prepare(group, op, options);
      ASSERT_FALSE(product) << fault;
      EXPECT_NE(product.error().message.find("rank 1"), std::string::npos)
          << fault << ": " << to_string(product.error());
      EXPECT_FALSE(group.state());
    });
  }
}

TEST(ShardedProducts, AnOperatorOfImpossibleSides) {
  for (const auto kind : {OverlapKind::all_gather_gemm, OverlapKind::gemm_reduce_scatter,
                          OverlapKind::all_to_all_gemm})
    for (const std::int64_t side : {std::int64_t{-1}, std::int64_t{1} << 62}) {
      test::at_all_ranks(2, Via::shared, [&](Group& group) {
        const OverlapOperator op{kind, 16, side, 16, kFloat, 2};
        const auto costs = measure_costs(group, op);
        ASSERT_FALSE(costs);
        EXPECT_EQ(costs.error().code, Code::invalid_argument) << to_string(costs.error());
      });
    }
}

TEST(ShardedProducts, AnOperatorForAnotherGroup) {
  OverlapOperator op{OverlapKind::all_gather_gemm, 8, 8, 8, kFloat, 3};
  test::at_all_ranks(1, Via::stream, [&](Group& group) {
    const auto costs = measure_costs(group, op);
    ASSERT_FALSE(costs);
    EXPECT_EQ(costs.error().code, Code::invalid_argument);
    EXPECT_EQ(costs.error().message, "an operator of 3 ranks in a group of 1");
  });
}

}  // namespace
}  // namespace gantry
