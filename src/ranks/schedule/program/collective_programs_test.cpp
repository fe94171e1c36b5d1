// The programs that come with the library: their plans pass the check, want what the collective is,
// and come to it on numbers, in any order.
#include <gtest/gtest.h>

#include "ranks/schedule/program/test_collectives.hpp"

namespace gantry {
namespace {

using test::cells_of;
using test::Random;

constexpr unsigned kMostTestedRanks = 6;
constexpr std::int64_t kMostTestedSize = 17;
constexpr std::int64_t kMostTestedChunks = 4;

class CollectivePrograms : public testing::TestWithParam<const char*> {
 protected:
  CollectiveProgram program_ = load_collective(GetParam()).value();
  Random random_{7};

  void try_one(const CollectiveShape& shape) {
    const auto plan = expand(program_, shape);
    ASSERT_TRUE(plan) << to_string(plan.error());
    const test::Reference reference = test::ReferenceMaker(shape).make(GetParam());
    ASSERT_EQ(cells_of(*plan, plan->given), reference.given) << to_text(*plan);
    ASSERT_EQ(cells_of(*plan, plan->wanted), reference.wanted) << to_text(*plan);
    const auto facts = check_plan(*plan);
    ASSERT_TRUE(facts) << to_string(facts.error()) << '\n' << to_text(*plan);
    test::PlanRunner runner(*plan, random_);
    ASSERT_TRUE(runner.run() && runner.has_what_is_wanted()) << to_text(*plan);
  }
};

TEST_P(CollectivePrograms, ComeToWhatTheCollectiveIs) {
  const bool has_root = std::string_view(GetParam()).starts_with("broadcast");
  for (const std::string& variant : program_.variants())
    for (unsigned ranks = 1; ranks <= kMostTestedRanks; ++ranks)
      for (std::int64_t size = 0; size <= kMostTestedSize; ++size)
        for (std::int64_t chunks = 1; chunks <= kMostTestedChunks; ++chunks)
          for (unsigned root = 0; root < (has_root ? ranks : 1); ++root) {
            CollectiveShape shape = test::shape_for(GetParam(), ranks, size, chunks, random_);
            shape.variant = variant;
            shape.root = root;
            ASSERT_NO_FATAL_FAILURE(try_one(shape))
                << variant << ", " << ranks << " ranks, " << size << " elements, " << chunks
                << " chunks, root " << root;
          }
}

// More ranks than a rank has lanes: some peers share one.
TEST_P(CollectivePrograms, PassWithMoreRanksThanLanes) {
  for (const std::string& variant : program_.variants()) {
    CollectiveShape shape = test::shape_for(GetParam(), 66, 66, 1, random_);
    shape.variant = variant;
    shape.root = 65;
    const auto plan = expand(program_, shape);
    ASSERT_TRUE(plan) << to_string(plan.error());
    EXPECT_LE(plan->lanes, 64u);
    const auto facts = check_plan(*plan);
    EXPECT_TRUE(facts) << to_string(facts.error());
  }
}

INSTANTIATE_TEST_SUITE_P(All, CollectivePrograms,
                         testing::Values("all-gather-at-once", "all-gather-ring",
                                         "all-reduce-at-once", "all-reduce-direct",
                                         "all-reduce-ring", "all-to-all", "all-to-all-counts",
                                         "broadcast-at-once", "broadcast-chain",
                                         "reduce-scatter-at-once", "reduce-scatter-ring"),
                         [](const auto& program) {
                           std::string name = program.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(CollectivePrograms, AreAllTested) {
  const auto all = list_collectives();
  ASSERT_TRUE(all) << to_string(all.error());
  EXPECT_EQ(all->size(), 11u) << "name it above";
}

/// Runs a plan on floats, in the order of its text, which is one of those that it leaves.
class FloatRunner {
 public:
  FloatRunner(const Plan& plan, const std::vector<std::vector<float>>& inputs) : plan_(plan) {
    for (unsigned rank = 0; rank < plan.ranks; ++rank)
      for (const PlanTensor& tensor : plan.tensors)
        memory_.emplace_back(static_cast<std::size_t>(tensor.rows * tensor.cols));
    for (unsigned rank = 0; rank < plan.ranks; ++rank) tensor(rank, 0) = inputs[rank];
    for (const PlanStep& step : plan.steps)
      if (step.verb != PlanVerb::signal) take(step);
  }
  std::vector<float>& tensor(unsigned rank, unsigned index) {
    return memory_[rank * plan_.tensors.size() + index];
  }

 private:
  float* at(const PlanPlace& place) {
    const PlanTensor& shape = plan_.tensors[place.tensor];
    return tensor(place.rank, place.tensor).data() + place.rect.row * shape.cols + place.rect.col;
  }
  void take(const PlanStep& step) {
    for (std::int64_t j = 0; j < step.to.rect.cols; ++j)
      at(step.to)[j] = at(step.from)[j] + (step.verb == PlanVerb::reduce ? at(step.to)[j] : 0.0F);
  }
  const Plan& plan_;
  std::vector<std::vector<float>> memory_;
};

TEST(CollectivePrograms, AddInTheOrderOfTheRanksWhereTheySayIt) {
  constexpr unsigned kRanks = 5;
  constexpr std::int64_t kSize = 203;
  Random random(11);
  std::vector<std::vector<float>> inputs(kRanks);
  std::vector<float> sum(kSize);
  for (auto& input : inputs)
    for (std::int64_t j = 0; j < kSize; ++j) {
      input.push_back(static_cast<float>(test::pick(random, -1'000'000, 1'000'000)) * 1.1e-3F);
      sum[static_cast<std::size_t>(j)] += input.back();  // onto 0 at first, which changes nothing
    }
  for (const char* const name :
       {"all-reduce-at-once", "all-reduce-direct", "reduce-scatter-at-once"})
    for (const char* const variant : {"eager", "rendezvous"}) {
      const auto plan =
          expand(load_collective(name).value(),
                 {.ranks = kRanks, .size = kSize, .chunks = 3, .counts = {}, .variant = variant});
      ASSERT_TRUE(plan) << to_string(plan.error());
      FloatRunner runner(*plan, inputs);
      for (const PlanValue& value : plan->wanted)
        for (std::int64_t j = value.place.rect.col;
             j < value.place.rect.col + value.place.rect.cols; ++j) {
          const auto index = static_cast<std::size_t>(j);
          ASSERT_EQ(runner.tensor(value.place.rank, 0)[index], sum[index]) << name << ' ' << j;
        }
    }
}

}  // namespace
}  // namespace gantry
