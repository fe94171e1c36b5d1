// What comes before what, while something in between takes its time: each wait of a plan is held
// to by a connection that is slow, or that stands still, where the other ones are not.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>

#include "core/base/test_effort.hpp"
#include "ranks/group/group.hpp"
#include "ranks/schedule/run/test_cables.hpp"

namespace gantry {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::CabledRanks;
using test::Via;

// Whoever does not wait for something that is held up is wrong long before it comes.
constexpr milliseconds kHeldFor{60};
constexpr std::size_t kLarge = std::size_t{1} << 20;  // 128 x 1024 x i64

Plan plan_of(std::string_view text) {
  auto plan = parse_plan(text);
  EXPECT_TRUE(plan) << to_string(plan.error());
  const auto checked = check_plan(*plan);
  EXPECT_TRUE(checked) << to_string(checked.error());
  return *plan;
}

/// Runs it at all ranks, while what rank 0 says to rank 1 is held up from the time on that all
/// have prepared.
void run_held_up(std::string_view text, Via via) {
  const Plan plan = plan_of(text);
  CabledRanks ranks(plan.ranks);
  std::barrier all_prepared(static_cast<std::ptrdiff_t>(plan.ranks) + 1);
  std::thread holder([&] {
    all_prepared.arrive_and_wait();
    ranks.wire(0, 1).hold(true);
    all_prepared.arrive_and_wait();
    ranks.wire(0, 1).await_held();
    std::this_thread::sleep_for(kHeldFor);
    ranks.wire(0, 1).hold(false);
  });
  ranks.run(via, [&](Group& group) {
    const auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
    test::store_given(plan, buffers, group.rank(), -1);
    all_prepared.arrive_and_wait();
    all_prepared.arrive_and_wait();
    const auto run = executor.run();
    ASSERT_TRUE(run) << to_string(run.error());
    EXPECT_EQ(test::wrong_elements(plan, buffers, group.rank()), 0u) << "rank " << group.rank();
  });
  holder.join();
}

class PlanOrder : public testing::TestWithParam<Via> {};

// Rank 1 takes the end of what came once it hears of the step behind it: nothing waits for the put
// itself.
TEST_P(PlanOrder, ASignalComesAfterThePutToTheSameRank) {
  run_held_up(R"(gantry-plan 1
ranks 2
lanes 1
tensor a 256 256 i64
tensor b 256 256 i64
tensor c 256 256 i64
given a@0 0:256,0:256 = X 0,0
wanted c@1 255:256,0:256 = X 0,0
put 0/0 a@0 0:256,0:256 to b@1 0:256,0:256
signal 0/0 to 1
copy 1/0 b@1 255:256,0:256 to c@1 255:256,0:256 after 1
)",
              GetParam());
}

// Lanes and `after` hold between different links, too.
TEST_P(PlanOrder, ASignalToOneRankComesAfterThePutToAnother) {
  run_held_up(R"(gantry-plan 1
ranks 3
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
given a@0 0:4,0:8 = X 0,0
wanted b@1 0:4,0:8 = X 0,0
wanted b@2 0:4,0:8 = X 0,0
put 0/0 a@0 0:4,0:8 to b@1 0:4,0:8
signal 0/0 to 2
get 2/0 b@1 0:4,0:8 to b@2 0:4,0:8 after 1
)",
              GetParam());
}

TEST_P(PlanOrder, APutToOneRankComesAfterThePutToAnotherThatItNames) {
  run_held_up(R"(gantry-plan 1
ranks 3
lanes 2
tensor a 4 8 i64
tensor b 4 8 i64
tensor c 1 1 i64
given a@0 0:4,0:8 = X 0,0
given c@0 0:1,0:1 = Y 0,0
wanted b@2 0:4,0:8 = X 0,0
wanted c@2 0:1,0:1 = Y 0,0
put 0/0 a@0 0:4,0:8 to b@1 0:4,0:8
put 0/1 c@0 0:1,0:1 to c@2 0:1,0:1 after 0
get 2/0 b@1 0:4,0:8 to b@2 0:4,0:8 after 1
)",
              GetParam());
}

TEST_P(PlanOrder, ABarrierComesAfterThePutsBeforeIt) {
  run_held_up(R"(gantry-plan 1
ranks 3
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
given a@0 0:4,0:8 = X 0,0
wanted b@2 0:4,0:8 = X 0,0
put 0/0 a@0 0:4,0:8 to b@1 0:4,0:8
barrier 0/0
barrier 1/0
barrier 2/0
get 2/0 b@1 0:4,0:8 to b@2 0:4,0:8
)",
              GetParam());
}

// Rank 0 comes late to it, as rank 1 sees it; what follows waits for all.
TEST_P(PlanOrder, WhatFollowsABarrierComesAfterTheLastOneIsThere) {
  run_held_up(R"(gantry-plan 1
ranks 3
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
given a@0 0:4,0:8 = X 0,0
given b@1 0:4,0:8 = Y 0,0
wanted b@1 0:4,0:8 = X 0,0
wanted b@2 0:4,0:8 = X 0,0
put 0/0 a@0 0:4,0:8 to b@2 0:4,0:8
barrier 0/0
barrier 1/0
barrier 2/0
get 1/0 b@2 0:4,0:8 to b@1 0:4,0:8
)",
              GetParam());
}

// 512 KiB are more than connections hold: what is changed too early arrives changed.
TEST_P(PlanOrder, WhatAPutReadsIsNotOverwrittenBefore) {
  run_held_up(R"(gantry-plan 1
ranks 2
lanes 1
tensor a 256 256 i64
tensor b 256 256 i64
given a@0 0:256,0:256 = X 0,0
wanted b@1 0:256,0:256 = X 0,0
put 0/0 a@0 0:256,0:256 to b@1 0:256,0:256
fill 0/0 a@0 0:256,0:256
)",
              GetParam());
}

TEST_P(PlanOrder, WhatAGetBringsIsNotUsedBefore) {
  run_held_up(R"(gantry-plan 1
ranks 3
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
given a@0 0:4,0:8 = X 0,0
wanted b@2 0:4,0:8 = X 0,0
get 1/0 a@0 0:4,0:8 to b@1 0:4,0:8
put 1/0 b@1 0:4,0:8 to b@2 0:4,0:8
)",
              GetParam());
}

// The second one reads what the first one brings to rank 0 itself.
TEST_P(PlanOrder, AGetWaitsForTheGetBeforeIt) {
  run_held_up(R"(gantry-plan 1
ranks 3
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
given a@0 0:4,0:8 = X 0,0
given a@2 0:4,0:8 = Y 0,0
wanted b@1 0:4,0:8 = Y 0,0
get 1/0 a@0 0:4,0:8 to b@1 0:4,0:8
get 1/0 a@2 0:4,0:8 to b@1 0:4,0:8
)",
              GetParam());
}

// ---- the end of a run ------------------------------------------------------------------------

/// What rank 0 says comes piece by piece, so that 1 MiB of it takes a while.
void run_slowly(std::string_view text, Via via,
                const std::function<void(Group&, const Plan&, const PlanBuffers&)>& after) {
  const Plan plan = plan_of(text);
  CabledRanks ranks(plan.ranks);
  ranks.wire(0, 1).delay(microseconds(4000));
  std::barrier all_over(static_cast<std::ptrdiff_t>(plan.ranks));
  ranks.run(via, [&](Group& group) {
    const auto buffers = PlanBuffers::make(plan, group.rank()).value();
    // In no region: all of it takes the connection.
    auto memory = buffers.tensors;
    for (PlanMemory& tensor : memory) tensor.region = nullptr;
    auto executor = PlanExecutor::prepare(group, plan, memory).value();
    test::store_given(plan, buffers, group.rank(), -1);
    const auto run = executor.run();
    ASSERT_TRUE(run) << to_string(run.error());
    after(group, plan, buffers);
    all_over.arrive_and_wait();
    EXPECT_EQ(test::wrong_elements(plan, buffers, group.rank()), 0u) << "rank " << group.rank();
  });
}

// At rank 1 nothing waits for it but the end of the run.
TEST_P(PlanOrder, WhenARunHasEndedAllThatWasToComeHasCome) {
  run_slowly(R"(gantry-plan 1
ranks 2
lanes 1
tensor a 128 1024 i64
tensor b 128 1024 i64
given a@0 0:128,0:1024 = X 0,0
wanted b@1 0:128,0:1024 = X 0,0
put 0/0 a@0 0:128,0:1024 to b@1 0:128,0:1024
)",
             GetParam(), [](Group& group, const Plan& plan, const PlanBuffers& buffers) {
               EXPECT_EQ(test::wrong_elements(plan, buffers, group.rank()), 0u);
             });
}

// Rank 0 may use its memory again, from which rank 1 got something.
TEST_P(PlanOrder, WhenARunHasEndedNobodyReadsItsMemory) {
  run_slowly(R"(gantry-plan 1
ranks 2
lanes 1
tensor a 128 1024 i64
tensor b 128 1024 i64
given a@0 0:128,0:1024 = X 0,0
wanted b@1 0:128,0:1024 = X 0,0
get 1/0 a@0 0:128,0:1024 to b@1 0:128,0:1024
)",
             GetParam(), [](Group& group, const Plan&, const PlanBuffers& buffers) {
               if (group.rank() == 0) std::memset(buffers.tensors[0].data, 0x5a, kLarge);
             });
}

// Nothing waits for the last put's way out, either.
TEST_P(PlanOrder, WhenARunHasEndedItsOwnPutsAreOut) {
  run_slowly(R"(gantry-plan 1
ranks 2
lanes 1
tensor a 128 1024 i64
tensor b 128 1024 i64
given a@0 0:128,0:1024 = X 0,0
wanted b@1 0:128,0:1024 = X 0,0
put 0/0 a@0 0:128,0:1024 to b@1 0:128,0:1024
)",
             GetParam(), [](Group& group, const Plan&, const PlanBuffers& buffers) {
               if (group.rank() == 0) std::memset(buffers.tensors[0].data, 0x5a, kLarge);
             });
}

constexpr std::string_view kLargePut = R"(gantry-plan 1
ranks 3
lanes 1
tensor a 128 1024 i64
tensor b 128 1024 i64
given a@0 0:128,0:1024 = X 0,0
wanted b@1 0:128,0:1024 = X 0,0
put 0/0 a@0 0:128,0:1024 to b@1 0:128,0:1024
)";

// Rank 2 gives up in the middle of a put from rank 0 to rank 1.
TEST_P(PlanOrder, AfterAFailureNothingLands) {
  const Plan plan = plan_of(kLargePut);
  CabledRanks ranks(plan.ranks);
  std::barrier all_ready(3);
  std::barrier all_over(3);
  ranks.wire(0, 1).delay(microseconds(4000));
  ranks.run(GetParam(), [&](Group& group) {
    const auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto memory = buffers.tensors;
    for (PlanMemory& tensor : memory) tensor.region = nullptr;
    auto executor = PlanExecutor::prepare(group, plan, memory).value();
    test::store_given(plan, buffers, group.rank(), -1);
    all_ready.arrive_and_wait();
    if (group.rank() == 2) {
      ranks.wire(0, 1).await_pieces(3);
      static_cast<void>(group.impl().break_with({Code::interrupted, "rank 2 gives up", ""}));
    } else {
      const auto run = executor.run();
      ASSERT_FALSE(run);
      EXPECT_EQ(run.error().message, "rank 2 gives up");
    }
    if (group.rank() == 1) {
      std::byte* const at = buffers.tensors[1].data;
      std::memset(at, 0x5a, kLarge);
      ranks.wire(0, 1).await_rest();
      std::size_t changed = 0;
      for (std::size_t i = 0; i < kLarge; ++i) changed += at[i] != std::byte{0x5a};
      EXPECT_EQ(changed, 0u);
    }
    all_over.arrive_and_wait();
  });
}

// ---- its beginning ---------------------------------------------------------------------------

// Rank 1's thread takes in what comes, while it still prepares what it gives.
TEST_P(PlanOrder, NothingLandsBeforeARankRuns) {
  const Plan plan = plan_of(R"(gantry-plan 1
ranks 2
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
given a@0 0:4,0:8 = X 0,0
given b@1 0:4,0:8 = Y 0,0
wanted a@1 0:4,0:8 = Y 0,0
wanted b@1 0:4,0:8 = X 0,0
copy 1/0 b@1 0:4,0:8 to a@1 0:4,0:8
signal 1/0 to 0
put 0/0 a@0 0:4,0:8 to b@1 0:4,0:8 after 1
)");
  // The same, but for what makes rank 0 wait.
  const Plan eager = plan_of(R"(gantry-plan 1
ranks 2
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
given a@0 0:4,0:8 = X 0,0
wanted b@1 0:4,0:8 = X 0,0
put 0/0 a@0 0:4,0:8 to b@1 0:4,0:8
)");
  for (const Plan* const one : {&plan, &eager}) {
    CabledRanks ranks(2);
    ranks.run(GetParam(), [&](Group& group) {
      const auto buffers = PlanBuffers::make(*one, group.rank()).value();
      auto executor = PlanExecutor::prepare(group, *one, buffers.tensors).value();
      for (int run = 0; run < 3; ++run) {
        if (group.rank() == 1) {
          test::store_given(*one, buffers, 1, -7 - run);
          const auto before = test::element(*one, buffers, 1, 3, 7);
          ranks.wire(0, 1).await_rest();
          EXPECT_EQ(test::element(*one, buffers, 1, 3, 7), before) << "run " << run;
        }
        test::store_given(*one, buffers, group.rank(), -7 - run);
        const auto done = executor.run();
        ASSERT_TRUE(done) << to_string(done.error());
        EXPECT_EQ(test::wrong_elements(*one, buffers, group.rank()), 0u) << "run " << run;
      }
    });
  }
}

// ---- anything --------------------------------------------------------------------------------

TEST_P(PlanOrder, RandomPlansLeaveWhatTheyWantThroughCablesThatHoldUp) {
  test::Random random(11);
  const int tries = (GetParam() == Via::threaded ? 20 : 80) / kTestStride;
  for (int i = 0; i < tries; ++i) {
    const Plan plan = i % 2 == 0 ? test::gather_plan(random) : test::scatter_plan(random);
    CabledRanks ranks(plan.ranks);
    ranks.each_wire([&](test::Wire& wire) {
      if (test::pick(random, 0, 2) > 0) wire.delay(microseconds(test::pick(random, 0, 500)), true);
    });
    ranks.run(GetParam(), [&](Group& group) {
      const auto buffers = PlanBuffers::make(plan, group.rank()).value();
      auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
      for (int run = 0; run < 3; ++run) {
        test::store_given(plan, buffers, group.rank(), -1000 - run);
        const auto done = executor.run();
        ASSERT_TRUE(done) << to_string(done.error()) << '\n' << to_text(plan);
        EXPECT_EQ(done->dropped_signals, 0u);
        EXPECT_EQ(test::wrong_elements(plan, buffers, group.rank()), 0u)
            << "rank " << group.rank() << ", run " << run << '\n'
            << to_text(plan);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Links, PlanOrder, testing::Values(Via::stream, Via::shared, Via::threaded),
                         [](const auto& of) { return test::name_of(of.param); });

}  // namespace
}  // namespace gantry
