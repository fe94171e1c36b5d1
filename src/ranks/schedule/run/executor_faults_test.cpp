// Connections between ranks that stop for a while, crawl, or are lost, in the middle of runs: what
// comes back ends right, each element; what does not is named by all ranks, and in time.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "ranks/group/group.hpp"
#include "ranks/schedule/run/test_cables.hpp"

namespace gantry {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::CabledRanks;
using test::Via;

constexpr unsigned kRanks = 3;

// Rows go round from rank to rank, until all have them.
Plan round_plan() {
  return parse_plan(R"(gantry-plan 1
ranks 3
lanes 1
tensor a 48 1024 i64
given a@0 0:16,0:1024 = X 0,0
given a@1 16:32,0:1024 = X 0,0
given a@2 32:48,0:1024 = X 0,0
wanted a@0 0:48,0:1024 = X 0,0
wanted a@1 0:48,0:1024 = X 0,0
wanted a@2 0:48,0:1024 = X 0,0
put 0/0 a@0 0:16,0:1024 to a@1 0:16,0:1024
put 1/0 a@1 16:32,0:1024 to a@2 16:32,0:1024
put 2/0 a@2 32:48,0:1024 to a@0 32:48,0:1024
put 0/0 a@0 32:48,0:1024 to a@1 32:48,0:1024 after 2
put 1/0 a@1 0:16,0:1024 to a@2 0:16,0:1024 after 0
put 2/0 a@2 16:32,0:1024 to a@0 16:32,0:1024 after 1
)")
      .value();
}

/// What strikes, and how the ranks' runs end: nothing, or their errors.
struct Struck {
  std::vector<std::optional<Error>> errors = std::vector<std::optional<Error>>(kRanks);
  std::vector<std::chrono::nanoseconds> after = std::vector<std::chrono::nanoseconds>(kRanks);
  // time of three runs in a row: a rank may begin the next two while another's message is held
  std::vector<std::chrono::nanoseconds> longest = std::vector<std::chrono::nanoseconds>(kRanks);
};

/// Which runs there are: all ranks have the same ones.
class Runs {
 public:
  /// False: this one does not begin any more, at no rank.
  bool begins(int run) {
    const std::lock_guard lock(mutex_);
    begun_ = std::max(begun_, std::min(run, last_));
    return run <= last_;
  }
  /// No run begins that no rank has begun.
  void end() {
    const std::lock_guard lock(mutex_);
    last_ = begun_;
  }

 private:
  std::mutex mutex_;
  int begun_ = 0;
  int last_ = std::numeric_limits<int>::max();
};

/// What is left when what strikes is over.
enum class Strike { passes, stays };

/// The ranks run until one fails, or until `strike` is over where it passes. It begins when all
/// have run once.
Struck run_and_strike(CabledRanks& ranks, Via via, milliseconds stall_limit, Strike kind,
                      const std::function<void()>& strike) {
  const Plan plan = round_plan();
  Struck struck;
  Runs runs;
  std::barrier all_have_run(kRanks + 1);
  std::atomic<Deadline::Clock::time_point> struck_at{};
  std::thread striker([&] {
    all_have_run.arrive_and_wait();
    struck_at = Deadline::Clock::now();
    strike();
    if (kind == Strike::passes) runs.end();
  });
  const auto body = [&](Group& group) {
    const unsigned rank = group.rank();
    const auto buffers = PlanBuffers::make(plan, rank).value();
    auto memory = buffers.tensors;  // in no region: all of it takes the connections
    for (PlanMemory& tensor : memory) tensor.region = nullptr;
    auto executor = PlanExecutor::prepare(group, plan, memory).value();
    std::array<Deadline::Clock::time_point, 3> began;
    began.fill(Deadline::Clock::now());
    for (int run = 0; runs.begins(run); ++run) {
      test::store_given(plan, buffers, rank, -7 - run);
      began = {began[1], began[2], Deadline::Clock::now()};
      const auto done = executor.run();
      struck.longest[rank] = std::max<std::chrono::nanoseconds>(struck.longest[rank],
                                                                Deadline::Clock::now() - began[0]);
      if (!done) {
        struck.errors[rank] = done.error();
        struck.after[rank] = Deadline::Clock::now() - struck_at.load();
        if (run == 0) all_have_run.arrive_and_drop();
        return;
      }
      ASSERT_EQ(test::wrong_elements(plan, buffers, rank), 0u) << "rank " << rank;
      if (run == 0) all_have_run.arrive_and_wait();
    }
  };
  ranks.run(via, body, stall_limit);
  striker.join();
  return struck;
}

class PlanFaults : public testing::TestWithParam<Via> {};

// Something lies in it while it does so, that a rank waits for.
TEST_P(PlanFaults, AConnectionThatStandsStillIsNoFailure) {
  constexpr milliseconds kStill{300};
  CabledRanks ranks(kRanks);
  ranks.each_wire([](test::Wire& wire) { wire.delay(microseconds(2000)); });
  const auto struck = run_and_strike(ranks, GetParam(), milliseconds(2000), Strike::passes, [&] {
    for (int i = 0; i < 2; ++i) {
      ranks.hold_between(0, 1, true);
      ranks.wire(0, 1).await_held();
      ranks.wire(1, 0).await_held();
      std::this_thread::sleep_for(kStill);  // the time is what is tested
      ranks.hold_between(0, 1, false);
      ranks.wire(0, 1).await_pieces(2);
    }
  });
  for (const auto& error : struck.errors) EXPECT_FALSE(error) << error->message;
  for (const auto longest : struck.longest) EXPECT_GE(longest, kStill);
}

// A run takes longer than the stall limit; something is heard all the time.
TEST_P(PlanFaults, AConnectionThatCrawlsIsNoFailure) {
  constexpr milliseconds kStall{300};
  CabledRanks ranks(kRanks);
  const auto struck = run_and_strike(ranks, GetParam(), kStall, Strike::passes, [&] {
    for (const auto& [from, to] : {std::pair(0u, 1u), {1u, 0u}})
      ranks.wire(from, to).delay(microseconds(100'000));
    ranks.wire(0, 1).await_pieces(10);  // two runs' at least, of which one is slow all the time
  });
  for (const auto& error : struck.errors) EXPECT_FALSE(error) << error->message;
  for (const auto longest : struck.longest) EXPECT_GT(longest, kStall);
}

void expect_named(const Struck& struck, milliseconds most) {
  for (unsigned rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(struck.errors[rank]) << "rank " << rank;
    const Error& error = *struck.errors[rank];
    EXPECT_EQ(error.code, Code::peer_gone) << error.message;
    const bool names =
        error.message.starts_with("rank 0: ") || error.message.starts_with("rank 1: ");
    EXPECT_TRUE(names) << error.message;
    const bool says_where = error.message.find("step ") != std::string::npos ||
                            error.message.find("waited for the others") != std::string::npos;
    EXPECT_TRUE(says_where) << error.message;
    EXPECT_LT(struck.after[rank], most) << error.message;
  }
}

TEST_P(PlanFaults, AConnectionThatIsCutIsNamedByAll) {
  constexpr milliseconds kStall{60'000};
  CabledRanks ranks(kRanks);
  ranks.each_wire([](test::Wire& wire) { wire.delay(microseconds(2000)); });
  const auto struck = run_and_strike(ranks, GetParam(), kStall, Strike::stays, [&] {
    ranks.wire(0, 1).await_pieces(3);  // the middle of a run
    ranks.cut(0, 1);
  });
  expect_named(struck, kStall / 2);
}

// Nobody says that it is lost.
TEST_P(PlanFaults, AConnectionThatVanishesIsNamedAfterTheStallLimit) {
  constexpr milliseconds kStall{500};
  CabledRanks ranks(kRanks);
  const auto struck = run_and_strike(ranks, GetParam(), kStall, Strike::stays, [&] {
    ranks.wire(0, 1).await_pieces(3);
    ranks.hold_between(0, 1, true);
  });
  expect_named(struck, 10 * kStall);
  for (unsigned rank = 0; rank < kRanks; ++rank) EXPECT_GE(struck.after[rank], kStall / 2);
}

INSTANTIATE_TEST_SUITE_P(Links, PlanFaults, testing::Values(Via::stream, Via::shared),
                         [](const auto& of) { return test::name_of(of.param); });

// ---- signals that are none, products that go on ------------------------------------------------

constexpr std::string_view kTwoSenders = R"(gantry-plan 1
ranks 3
lanes 1
tensor a 1 4 i64
tensor b 1 4 i64
tensor c 1 4 i64
given a@0 0:1,0:4 = X 0,0
wanted c@1 0:1,0:4 = X 0,0
put 0/0 a@0 0:1,0:4 to b@1 0:1,0:4
signal 2/0 to 1
copy 1/0 b@1 0:1,0:4 to c@1 0:1,0:4 after 0 1
)";

// Rank 2 says that rank 0's step has ended; then that its own has, which it says again in its run.
TEST(PlanSignals, OfAnotherRanksStepAndTheSecondTimeAreDropped) {
  const Plan plan = parse_plan(kTwoSenders).value();
  std::barrier all_prepared(3);
  std::barrier all_said(3);
  std::optional<RemoteRegion> theirs;
  test::at_all_ranks(3, Via::stream, [&](Group& group) {
    const auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto executor = PlanExecutor::prepare(group, plan, buffers.tensors).value();
    test::store_given(plan, buffers, group.rank(), -1);
    std::array<std::byte, 8> there{};
    Export exported;
    if (group.rank() == 1) {
      exported = group.impl().link(2).export_memory(there, RemoteAccess::write).value();
      theirs = exported.remote();
    }
    all_prepared.arrive_and_wait();
    if (group.rank() == 2) {
      const std::uint64_t run = group.impl().operation() + 1;
      ASSERT_TRUE(group.impl().link(1).put(Transfer::of({}, *theirs, 0, run << 32 | 0)));
      ASSERT_TRUE(group.impl().link(1).put(Transfer::of({}, *theirs, 0, run << 32 | 1)));
    }
    all_said.arrive_and_wait();
    if (group.rank() == 0) std::this_thread::sleep_for(2 * kGroupBeat);
    const auto done = executor.run();
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(done->dropped_signals, group.rank() == 1 ? 2u : 0u);
    EXPECT_EQ(test::wrong_elements(plan, buffers, group.rank()), 0u);
  });
}

/// Takes its time, for a run that does not wait for it to end before it; it writes at the end.
class SlowGemm final : public GemmLibrary {
 public:
  const GemmFacts& facts() const noexcept override { return facts_; }
  bool takes(const DataType&) const noexcept override { return true; }
  Result<void> multiply(const Gemm& product) override {
    begun = true;
    const Deadline most = Deadline::after(milliseconds(150));
    while (!run_has_ended && !most.passed()) std::this_thread::yield();
    ended_first = !run_has_ended;
    *reinterpret_cast<std::int64_t*>(product.c) = 77;
    has_ended = true;
    return {};
  }
  std::atomic<bool> begun{false}, run_has_ended{false}, ended_first{false}, has_ended{false};

 private:
  GemmFacts facts_;
};

constexpr std::string_view kProduct = R"(gantry-plan 1
tensor a 1 1 i64
tensor b 1 1 i64
tensor c 1 1 i64
given a@0 0:1,0:1 = X 0,0
given b@0 0:1,0:1 = Y 0,0
gemm 0/0 a@0 0:1,0:1 by b@0 0:1,0:1 to c@0 0:1,0:1
)";

TEST(PlanFailures, NoProductGoesOnWhenARunHasFailed) {
  const Plan plan = parse_plan(std::string(kProduct) + "ranks 2\n").value();
  const auto gemm = std::make_shared<SlowGemm>();
  test::at_all_ranks(2, Via::stream, [&](Group& group) {
    const auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto executor =
        PlanExecutor::prepare(group, plan, buffers.tensors, {.limits = {}, .gemm = gemm}).value();
    if (group.rank() == 1) {
      while (!gemm->begun) std::this_thread::yield();
      static_cast<void>(group.impl().break_with({Code::interrupted, "rank 1 gives up", ""}));
      return;
    }
    ASSERT_FALSE(executor.run());
    gemm->run_has_ended = true;
    while (!gemm->has_ended) std::this_thread::yield();  // it uses the buffers
    EXPECT_TRUE(gemm->ended_first);
  });
}

/// What no library may do.
class ThrowingGemm final : public GemmLibrary {
 public:
  explicit ThrowingGemm(std::function<void()> act) : throws_(std::move(act)) {}
  const GemmFacts& facts() const noexcept override { return facts_; }
  bool takes(const DataType&) const noexcept override { return true; }
  Result<void> multiply(const Gemm&) override {
    throws_();
    return {};
  }

 private:
  GemmFacts facts_;
  std::function<void()> throws_;
};

TEST(PlanFailures, WhatALibraryThrowsIsAnErrorOfItsStep) {
  const Plan plan = parse_plan(kProduct).value();
  const std::string where = "rank 0: step 0 (gemm, rank 0): ";
  for (const auto& [act, code, words] :
       std::vector<std::tuple<std::function<void()>, Code, std::string>>{
           {[] { throw std::bad_alloc(); }, Code::out_of_memory, "out of memory"},
           {[] { throw std::runtime_error("no sum"); }, Code::system, "the library threw: no sum"},
           {[] { throw 7; }, Code::system, "the library threw"}}) {
    const auto gemm = std::make_shared<ThrowingGemm>(act);
    test::at_all_ranks(1, Via::stream, [&](Group& group) {
      const auto buffers = PlanBuffers::make(plan, group.rank()).value();
      auto executor =
          PlanExecutor::prepare(group, plan, buffers.tensors, {.limits = {}, .gemm = gemm}).value();
      const auto run = executor.run(Deadline::after(std::chrono::seconds(30)));
      ASSERT_FALSE(run);
      EXPECT_EQ(run.error().code, code);
      EXPECT_EQ(run.error().message, where + words);
    });
  }
}

}  // namespace
}  // namespace gantry
