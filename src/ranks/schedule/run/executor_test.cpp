// Property: a plan that passes the check leaves what it wants at every rank, whatever the links and
// whoever is slow. Method: random plans on whole numbers, run by threads as ranks.
#include <gtest/gtest.h>

#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry {
namespace {

using test::pick;
using test::Random;
using test::Via;

void run_everywhere(const Plan& plan, Via via, unsigned runs) {
  test::at_all_ranks(plan.ranks, via, [&](Group& group) {
    const auto buffers = PlanBuffers::make(plan, group.rank());
    ASSERT_TRUE(buffers) << to_string(buffers.error());
    auto executor = PlanExecutor::prepare(group, plan, buffers->tensors);
    ASSERT_TRUE(executor) << to_string(executor.error()) << '\n' << to_text(plan);
    for (unsigned run = 0; run < runs; ++run) {
      test::store_given(plan, *buffers, group.rank(), -1000 - run);
      const auto done = executor->run();
      ASSERT_TRUE(done) << to_string(done.error()) << '\n' << to_text(plan);
      EXPECT_EQ(done->dropped_signals, 0u);
      EXPECT_EQ(done->sent, executor->facts().sent[group.rank()]);
      EXPECT_EQ(done->received, executor->facts().received[group.rank()]);
      EXPECT_EQ(test::wrong_elements(plan, *buffers, group.rank()), 0u)
          << "rank " << group.rank() << ", run " << run << '\n'
          << to_text(plan);
    }
  });
}

class PlanExecution : public testing::TestWithParam<Via> {};

TEST_P(PlanExecution, RandomPlansLeaveWhatTheyWant) {
  Random random(7);
  const int tries = GetParam() == Via::threaded ? 20 : 150;  // a thread for each link
  for (int i = 0; i < tries; ++i)
    run_everywhere(i % 2 == 0 ? test::gather_plan(random) : test::scatter_plan(random), GetParam(),
                   2);
}

// Every verb, and barriers between those that write one place after another.
constexpr std::string_view kEveryVerb = R"(gantry-plan 1
ranks 3
lanes 2
tensor a 5 7 i64
tensor b 5 7 i64
tensor s 5 7 i64
given a@0 0:5,0:7 = X 0,0
given a@1 0:5,0:7 = Y 0,0
given a@2 0:5,0:7 = Z 0,0
wanted s@0 0:5,1:6 = X 0,0 + Y 0,0 + Z 0,0
wanted b@1 0:5,1:6 = X 0,0 + Y 0,0 + Z 0,0
wanted b@2 1:3,2:4 = X 0,0 + Y 0,0 + Z 0,0
fill 0/0 s@0 0:5,0:7
get 0/0 a@1 0:5,1:6 to b@0 0:5,1:6
reduce 0/0 b@0 0:5,1:6 to s@0 0:5,1:6
get 0/0 a@2 0:5,1:6 to b@0 0:5,1:6
reduce 0/0 b@0 0:5,1:6 to s@0 0:5,1:6
reduce 0/0 a@0 0:5,1:6 to s@0 0:5,1:6
barrier 0/0
barrier 1/0
barrier 2/1
get 1/0 s@0 0:5,1:6 to s@1 0:5,1:6
copy 1/1 s@1 0:5,1:6 to b@1 0:5,1:6 after 9
signal 1/1 to 2
get 2/0 b@1 1:3,2:4 to b@2 1:3,2:4 after 11
barrier 0/1 after 6
barrier 1/0 after 10
barrier 2/0
)";

TEST_P(PlanExecution, EveryVerbDoesWhatItSays) {
  const auto plan = parse_plan(kEveryVerb);
  ASSERT_TRUE(plan) << to_string(plan.error());
  ASSERT_TRUE(check_plan(*plan)) << to_string(check_plan(*plan).error());
  run_everywhere(*plan, GetParam(), 20);
}

TEST_P(PlanExecution, APlanMayHaveNoTensors) {
  const auto plan = parse_plan(
      "gantry-plan 1\nranks 2\nbarrier 0/0\nbarrier 1/0\nsignal 0/0 to 1\nbarrier 0/0\n"
      "barrier 1/0 after 2\n");
  ASSERT_TRUE(plan) << to_string(plan.error());
  run_everywhere(*plan, GetParam(), 20);
}

INSTANTIATE_TEST_SUITE_P(Links, PlanExecution,
                         testing::Values(Via::stream, Via::shared, Via::threaded),
                         [](const auto& of) { return test::name_of(of.param); });

}  // namespace
}  // namespace gantry
