// What a rank hears when a plan cannot go on, and what it leaves alone.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>

#include "core/base/event.hpp"
#include "ranks/group/group.hpp"
#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry {
namespace {

using std::chrono::milliseconds;
using test::Via;

// Rank 0 sends a row of its matrix; rank 1 adds it to its own.
Plan a_plan(std::int64_t cols = 8) {
  const std::string text = fmt::format(
      "gantry-plan 1\nranks 2\nlanes 2\ntensor a 4 {0} i64\ntensor b 4 {0} i64\n"
      "given a@0 0:4,0:{0} = X 0,0\ngiven a@1 0:4,0:{0} = Y 0,0\n"
      "wanted a@1 1:3,1:{1} = X 0,0 + Y 0,0\n"
      "put 0/0 a@0 1:3,1:{1} to b@1 1:3,1:{1}\n"
      "reduce 1/0 b@1 1:3,1:{1} to a@1 1:3,1:{1} after 0\n",
      cols, cols - 1);
  return parse_plan(text).value();
}

std::vector<std::int64_t> all_of(const Plan& plan, const PlanBuffers& buffers) {
  std::vector<std::int64_t> all;
  for (unsigned tensor = 0; tensor < plan.tensors.size(); ++tensor)
    for (std::int64_t i = 0; i < plan.tensors[tensor].rows; ++i)
      for (std::int64_t j = 0; j < plan.tensors[tensor].cols; ++j)
        if (buffers.tensors[tensor].data != nullptr)
          all.push_back(test::element(plan, buffers, tensor, i, j));
  return all;
}

/// Both ranks do it, and hear the same error.
std::string error_at_both(const std::function<Result<void>(Group&)>& act, Code code) {
  std::array<std::string, 2> errors;
  test::at_all_ranks(2, Via::stream, [&](Group& group) {
    const auto done = act(group);
    ASSERT_FALSE(done) << "rank " << group.rank();
    EXPECT_EQ(done.error().code, code) << done.error().message;
    errors[group.rank()] = done.error().message;
    ASSERT_FALSE(group.state());
    EXPECT_EQ(group.state().error().message, done.error().message);
  });
  EXPECT_EQ(errors[0], errors[1]);
  return errors[0];
}

Result<void> prepare(Group& group, const Plan& plan, std::span<const PlanMemory> memory) {
  return PlanExecutor::prepare(group, plan, memory).map([](const PlanExecutor&) {});
}

Result<void> prepare_and_run(Group& group, const Plan& plan, Deadline deadline) {
  auto buffers = PlanBuffers::make(plan, group.rank());
  if (!buffers) return tl::unexpected(buffers.error());
  auto executor = PlanExecutor::prepare(group, plan, buffers->tensors);
  if (!executor) return tl::unexpected(executor.error());
  auto run = executor->run(deadline);
  if (run) return {};
  // It stays so.
  const auto again = executor->run(deadline);
  EXPECT_EQ(again.error().message, run.error().message);
  return tl::unexpected(run.error());
}

TEST(PlanFailures, RanksWithDifferentPlans) {
  const auto error = error_at_both(
      [](Group& group) {
        return prepare_and_run(group, a_plan(8 + group.rank()), Deadline::never());
      },
      Code::invalid_argument);
  EXPECT_NE(error.find("different plans"), std::string::npos) << error;
}

TEST(PlanFailures, APlanForAnotherGroup) {
  Plan plan = a_plan();
  plan.ranks = 3;
  const auto error =
      error_at_both([&](Group& group) -> Result<void> { return prepare(group, plan, {}); },
                    Code::invalid_argument);
  EXPECT_NE(error.find("a plan for 3 ranks in a group of 2"), std::string::npos) << error;
}

TEST(PlanFailures, APlanThatDoesNotPassTheCheck) {
  Plan plan = a_plan();
  plan.steps[1].after.clear();
  static_cast<void>(error_at_both(
      [&](Group& group) -> Result<void> {
        auto buffers = PlanBuffers::make(a_plan(), group.rank()).value();
        return prepare(group, plan, buffers.tensors);
      },
      Code::invalid_argument));
}

TEST(PlanFailures, MemoryThatNobodyGave) {
  const auto error = error_at_both(
      [](Group& group) -> Result<void> {
        auto buffers = PlanBuffers::make(a_plan(), group.rank()).value();
        if (group.rank() == 1) buffers.tensors[1] = {};
        return prepare(group, a_plan(), buffers.tensors);
      },
      Code::invalid_argument);
  EXPECT_NE(error.find("rank 1, tensor b: no memory"), std::string::npos) << error;
}

TEST(PlanFailures, MemoryBeyondItsRegion) {
  const auto error = error_at_both(
      [](Group& group) -> Result<void> {
        auto buffers = PlanBuffers::make(a_plan(), group.rank()).value();
        const auto region = Region::create(4096, "another").value();
        if (group.rank() == 1) buffers.tensors[1] = {region.data() + 4096 - 8, 0, &region};
        return prepare(group, a_plan(), buffers.tensors);
      },
      Code::invalid_argument);
  EXPECT_NE(error.find("rank 1, tensor b: it does not lie in its region"), std::string::npos)
      << error;
}

// Each says that it lives, also while it is at work elsewhere.
TEST(PlanFailures, ARankThatIsBusyForLongerThanTheStallLimitIsNotGone) {
  constexpr milliseconds kStall{250};
  auto mesh = test::socket_mesh(2);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto group = test::group_over(std::move(mesh[rank]), rank, Via::stream, kStall).value();
      const Plan plan = a_plan();
      auto buffers = PlanBuffers::make(plan, rank).value();
      auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
      test::store_given(plan, buffers, rank, 0);
      const auto until = Deadline::after(4 * kStall);
      while (rank == 0 && !until.passed()) continue;  // its own work
      const auto run = executor.run();
      ASSERT_TRUE(run) << to_string(run.error());
      EXPECT_EQ(test::wrong_elements(plan, buffers, rank), 0u);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(PlanFailures, RanksThatMakeDifferentCalls) {
  static_cast<void>(error_at_both(
      [](Group& group) -> Result<void> {
        const Plan plan = a_plan();
        auto buffers = PlanBuffers::make(plan, group.rank()).value();
        auto executor = PlanExecutor::prepare(group, plan, buffers.tensors);
        if (!executor) return tl::unexpected(executor.error());
        if (group.rank() == 0) {
          auto run = executor->run();
          return run ? Result<void>{} : tl::unexpected(run.error());
        }
        auto another = PlanExecutor::prepare(group, plan, buffers.tensors);
        return another ? Result<void>{} : tl::unexpected(another.error());
      },
      Code::invalid_argument));
}

// Both know both plans.
TEST(PlanFailures, RanksThatRunTwoPlansInAnotherOrder) {
  const auto error = error_at_both(
      [](Group& group) -> Result<void> {
        std::vector<PlanBuffers> buffers;
        std::vector<PlanExecutor> executors;
        for (const std::int64_t cols : {8, 9}) {
          const Plan plan = a_plan(cols);
          buffers.push_back(PlanBuffers::make(plan, group.rank()).value());
          executors.push_back(PlanExecutor::prepare(group, plan, buffers.back().tensors).value());
        }
        auto run = executors[group.rank()].run(Deadline::after(milliseconds(20'000)));
        return run ? Result<void>{} : tl::unexpected(run.error());
      },
      Code::invalid_argument);
  EXPECT_EQ(error, "ranks 0 and 1 run different plans");
}

// One text, two pairs of tensors: a rank must not write into what the other one does not mean.
TEST(PlanFailures, RanksThatRunThePreparedOfOneTextInAnotherOrder) {
  const auto error = error_at_both(
      [](Group& group) -> Result<void> {
        const Plan plan = a_plan();
        std::vector<PlanBuffers> buffers;
        std::vector<PlanExecutor> executors;
        for (unsigned i = 0; i < 2; ++i) {
          buffers.push_back(PlanBuffers::make(plan, group.rank()).value());
          test::store_given(plan, buffers.back(), group.rank(), -1);
          executors.push_back(PlanExecutor::prepare(group, plan, buffers.back().tensors).value());
        }
        const std::vector<std::int64_t> before[] = {all_of(plan, buffers[0]),
                                                    all_of(plan, buffers[1])};
        auto run = executors[group.rank()].run(Deadline::after(milliseconds(20'000)));
        for (unsigned i = 0; i < 2; ++i) EXPECT_EQ(all_of(plan, buffers[i]), before[i]);
        return run ? Result<void>{} : tl::unexpected(run.error());
      },
      Code::invalid_argument);
  EXPECT_EQ(error, "ranks 0 and 1 run the same plan as prepared by different calls");
}

TEST(PlanFailures, ARankThatDoesNotRunIsNamedWhenTimeIsUp) {
  test::at_all_ranks(2, Via::stream, [&](Group& group) {
    const Plan plan = a_plan();
    auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
    if (group.rank() == 0) {  // says nothing until the other one gives up
      while (group.state() && group.impl().serve()) group.impl().sleep(-1, Deadline::never());
      return;
    }
    constexpr milliseconds kWait{50};
    const auto began = Deadline::Clock::now();
    const auto run = executor.run(Deadline::after(kWait));
    EXPECT_GE(Deadline::Clock::now() - began, kWait);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, Code::timed_out);
    EXPECT_EQ(run.error().message, "rank 1 waited for step 0 (put, rank 0) when time was up");
  });
}

TEST(PlanFailures, OneInterruptedRankEndsAll) {
  const Fd event = make_event().value();
  auto mesh = test::socket_mesh(2);
  std::array<Error, 2> errors;
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto group = test::group_over(std::move(mesh[rank]), rank, Via::stream, milliseconds(60'000),
                                    rank == 1 ? event.get() : -1)
                       .value();
      const Plan plan = a_plan();
      auto buffers = PlanBuffers::make(plan, rank).value();
      auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
      for (;;) {
        const auto run = executor.run();
        if (run && rank == 1) ring(event.get());
        if (run) continue;
        errors[rank] = run.error();
        return;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::interrupted) << error.message;
    EXPECT_EQ(error.message, "rank 1 was interrupted");
  }
}

TEST(PlanFailures, ARankThatLeavesBeforeItsPart) {
  std::barrier both_prepared(2);
  test::at_all_ranks(2, Via::shared, [&](Group& group) {
    const Plan plan = a_plan();
    auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
    both_prepared.arrive_and_wait();
    if (group.rank() == 0) return group.leave();
    const auto run = executor.run();
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, Code::peer_gone);
    EXPECT_EQ(run.error().message, "rank 0 left the group; rank 1 waited for step 0 (put, rank 0)");
  });
}

// What failed first was said before the links ended, and is heard by who begins after that.
// Also by who passes over it once, to take in what came before.
TEST(PlanFailures, WhatAnotherSaidIsHeardEachTime) {
  test::at_all_ranks(2, Via::shared, [&](Group& group) {
    const auto held = group.impl().hold();
    if (group.rank() == 1) {
      static_cast<void>(group.impl().break_with({Code::interrupted, "rank 1 gives up", ""}));
      return;
    }
    Result<bool> heard = false;
    while (heard) heard = group.impl().serve();
    for (int again = 0; again < 3; ++again) {
      ASSERT_FALSE(heard);
      EXPECT_EQ(heard.error().message, "rank 1 gives up") << again;
      heard = group.impl().serve();
    }
  });
}

/// Polls, as the group's thread does while nobody calls, until that rank's link has ended.
void await_end_of_link(Group& group, unsigned peer) {
  const auto held = group.impl().hold();
  while (group.impl().link(peer).state()) {
    group.impl().link(peer).poll();
    std::this_thread::yield();
  }
}

TEST(PlanFailures, ARankThatBeginsLateHearsWhatFailedFirst) {
  const Plan plan =
      parse_plan("gantry-plan 1\nranks 3\nbarrier 0/0\nbarrier 1/0\nbarrier 2/0\n").value();
  std::barrier all_prepared(3);
  std::barrier has_failed(2);
  test::at_all_ranks(3, Via::stream, [&](Group& group) {
    auto executor = PlanExecutor::prepare(group, plan, {}).value();
    all_prepared.arrive_and_wait();
    if (group.rank() == 2) {
      static_cast<void>(group.impl().break_with({Code::interrupted, "rank 2 gives up", ""}));
      return;
    }
    if (group.rank() == 0) {
      has_failed.arrive_and_wait();
      await_end_of_link(group, 2);
    }
    const auto run = executor.run();
    if (group.rank() == 1) has_failed.arrive_and_wait();
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, Code::interrupted);
    EXPECT_EQ(run.error().message, "rank 2 gives up");
  });
}

// The same, of one that failed while it prepared.
TEST(PlanFailures, ARankThatPreparesLateHearsWhatFailedFirst) {
  const Plan plan =
      parse_plan("gantry-plan 1\nranks 3\nbarrier 0/0\nbarrier 1/0\nbarrier 2/0\n").value();
  Plan other = plan;
  other.steps.pop_back();
  other.ranks = 2;
  std::barrier has_failed(3);
  test::at_all_ranks(3, Via::shared, [&](Group& group) {
    if (group.rank() == 2) {
      has_failed.arrive_and_wait();
      await_end_of_link(group, 0);
    }
    const auto made = PlanExecutor::prepare(group, group.rank() == 0 ? other : plan, {});
    if (group.rank() != 2) has_failed.arrive_and_wait();
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::invalid_argument) << to_string(made.error());
    EXPECT_NE(made.error().message.find("a plan for 2 ranks"), std::string::npos)
        << to_string(made.error());
  });
}

// ---- what it leaves alone --------------------------------------------------------------------

TEST(PlanMemories, WhatLiesBetweenRowsIsLeftAlone) {
  constexpr std::int64_t kCols = 8;
  constexpr std::int64_t kStride = 11;
  constexpr std::int64_t kGuard = 0x5a5a5a5a5a5a5a5a;
  const Plan plan = a_plan(kCols);
  test::at_all_ranks(2, Via::stream, [&](Group& group) {
    std::array<std::vector<std::int64_t>, 2> cells;
    std::vector<PlanMemory> memory;
    for (auto& tensor : cells) {
      tensor.assign(4 * kStride, kGuard);
      memory.push_back({reinterpret_cast<std::byte*>(tensor.data()), kStride * 8, nullptr});
    }
    auto executor = PlanExecutor::prepare(group, plan, memory).value();
    for (int run = 0; run < 3; ++run) {
      for (auto& tensor : cells) tensor.assign(4 * kStride, kGuard);
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < kCols; ++j)
          cells[0][static_cast<std::size_t>(i * kStride + j)] = 100 * i + j + run;
      ASSERT_TRUE(executor.run());
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < kStride; ++j) {
          const bool is_ours = j < kCols;
          const bool is_summed = group.rank() == 1 && i >= 1 && i < 3 && j >= 1 && j < kCols - 1;
          const std::int64_t was = is_ours ? 100 * i + j + run : kGuard;
          EXPECT_EQ(cells[0][static_cast<std::size_t>(i * kStride + j)], is_summed ? 2 * was : was)
              << i << ", " << j;
        }
    }
  });
}

TEST(PlanSignals, OfNoStepAreDroppedAndCounted) {
  std::barrier both_prepared(2);
  std::array<RemoteRegion, 2> regions;
  const Plan plan = a_plan();
  test::at_all_ranks(2, Via::stream, [&](Group& group) {
    auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
    Link& link = group.impl().link(1 - group.rank());
    std::array<std::byte, 8> there{};
    const auto exported = link.export_memory(there, RemoteAccess::write).value();
    regions[group.rank()] = exported.remote();
    both_prepared.arrive_and_wait();
    const RemoteRegion theirs = regions[1 - group.rank()];
    test::store_given(plan, buffers, group.rank(), 0);
    // Of another run, of a step that is none, of one that is this rank's own.
    const std::uint64_t run = group.impl().operation() + 1;
    for (const std::uint64_t signal : {std::uint64_t{0}, run << 32 | 77, run << 32 | 1})
      if (group.rank() == 0) {
        ASSERT_TRUE(link.put(Transfer::of({}, theirs, 0, signal)));
      }
    const auto done = executor.run();
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(done->dropped_signals, group.rank() == 1 ? 3u : 0u);
    EXPECT_EQ(test::wrong_elements(plan, buffers, group.rank()), 0u);
  });
}

}  // namespace
}  // namespace gantry
