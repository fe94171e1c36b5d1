#include "core/engine/thread/core.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/sizes.hpp"
#include "core/engine/thread/test_gate.hpp"
#include "core/engine/thread/thread_lane.hpp"

namespace gantry {
namespace {

namespace fs = std::filesystem;

struct Rig {
  explicit Rig(const std::vector<WorkerPlace>& places,
               NodeGroups::NodeOf node_of = NodeGroups::node_of_page)
      : core(*ThreadCore::make({.workers = places}, node_of)) {}

  std::unique_ptr<Lane> open(std::size_t depth = 64) const {
    auto lane = std::make_unique<ThreadLane>(core, LaneOptions{.depth = depth});
    EXPECT_TRUE(lane->open());
    return lane;
  }
  std::shared_ptr<ThreadCore> core;
};

struct ThreadState {
  char state = '?';
  unsigned long long cpu_ns = 0;
  bool operator==(const ThreadState&) const = default;
};

// Of the threads named as copy workers are: what the kernel says of them.
std::vector<ThreadState> workers_now() {
  std::vector<ThreadState> found;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    std::string name, line;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    if (name != "gantry-copy") continue;
    ThreadState state;
    std::ifstream status(entry.path() / "status");
    while (std::getline(status, line))
      if (line.starts_with("State:")) state.state = line[line.find_first_not_of(" \t", 6)];
    std::ifstream(entry.path() / "schedstat") >> state.cpu_ns;
    found.push_back(state);
  }
  return found;
}

void burn_cpu(std::uint64_t ns) {
  for (const std::uint64_t until = thread_cpu_ns() + ns; thread_cpu_ns() < until;) {
  }
}

bool all_sleep(const std::vector<ThreadState>& workers) {
  return std::ranges::all_of(workers, [](const auto& worker) { return worker.state == 'S'; });
}

// Those whose CPU time stands still while this thread used a good deal of it did not run.
bool park(std::size_t count) {
  for (int tries = 0; tries < 500; ++tries) {
    const auto before = workers_now();
    burn_cpu(5'000'000);
    const auto after = workers_now();
    if (before == after && after.size() == count && all_sleep(after)) return true;
  }
  return false;
}

TEST(ThreadCore, IdleWorkersAreParked) {
  const Rig rig(std::vector<WorkerPlace>(3));
  EXPECT_TRUE(park(3));
  const auto lane = rig.open();
  std::vector<std::byte> bytes(8 * kMiB);
  EXPECT_EQ(lane->wait(*lane->submit(Move::fill(bytes, std::byte{1})), Deadline::never(),
                       WaitStrategy::sleep),
            Outcome::done);
  EXPECT_TRUE(park(3));
}

TEST(ThreadCore, WakesNoMoreWorkersThanThereAreUnits) {
  const Rig rig(std::vector<WorkerPlace>(4));
  const auto lane = rig.open();
  std::vector<std::byte> bytes(8 * kMiB);
  for (const Bytes units : {Bytes{1}, Bytes{2}}) {
    ASSERT_TRUE(park(4));
    const std::uint64_t before = rig.core->wake_ups();
    const auto part = ByteSpan(bytes).first(units * RateEstimate::kLeastUnit);
    EXPECT_EQ(lane->wait(*lane->submit(Move::fill(part, std::byte{1})), Deadline::never(),
                         WaitStrategy::sleep),
              Outcome::done);
    EXPECT_GE(rig.core->wake_ups() - before, 1u);
    EXPECT_LE(rig.core->wake_ups() - before, units);
  }
}

// What the submitter waits for it begins itself, and calls for help only when that gains.
TEST(ThreadCore, NobodyIsWokenForASmallMoveThatIsWaitedFor) {
  const Rig rig(std::vector<WorkerPlace>(1));
  const auto lane = rig.open();
  std::vector<std::byte> bytes(RateEstimate::kLeastUnit);
  ASSERT_TRUE(park(1));
  const std::uint64_t before = rig.core->wake_ups();
  for (int i = 0; i < 100; ++i) {
    const auto ticket = lane->submit(Move::fill(bytes, std::byte{1}), SubmitMode::synchronous);
    EXPECT_EQ(lane->outcome(*ticket), Outcome::done);
  }
  EXPECT_EQ(rig.core->wake_ups(), before);
}

TEST(ThreadCore, AWorkerIsCalledForALargeMoveThatIsWaitedFor) {
  const Rig rig(std::vector<WorkerPlace>(1));
  const auto lane = rig.open();
  std::vector<std::byte> bytes(128 * kMiB);
  const auto ticket = lane->submit(Move::fill(bytes, std::byte{1}), SubmitMode::synchronous);
  EXPECT_EQ(lane->wait(*ticket, Deadline::never(), WaitStrategy::sleep), Outcome::done);
  EXPECT_GE(rig.core->wake_ups(), 1u);
  EXPECT_LT(rig.core->report().helped_bytes, bytes.size());
  EXPECT_EQ(bytes.back(), std::byte{1});
}

// A second waiter takes a unit between two of the submitter's, and gives the move back when that
// has nothing left to take: the workers must see it then.
TEST(ThreadCore, AMoveThatWasBegunAloneIsNotForgottenWhenAnotherWaiterHelps) {
  const Rig rig(std::vector<WorkerPlace>(1));
  const auto lane = rig.open();
  std::vector<std::byte> bytes(kMiB);
  std::atomic<bool> over{false};
  std::thread poller([&] {
    while (!over) lane->poll();
  });
  for (int i = 0; i < 5000; ++i) {
    const auto ticket = lane->submit(Move::fill(bytes, std::byte{2}), SubmitMode::synchronous);
    EXPECT_EQ(lane->wait(*ticket, Deadline::never(), WaitStrategy::sleep), Outcome::done);
  }
  over = true;
  poller.join();
}

// Cancelled by another thread while its submitter is at it, and again and again.
TEST(ThreadCore, AMoveThatWasBegunAloneCanBeCancelled) {
  const Rig rig(std::vector<WorkerPlace>(1));
  const auto lane = rig.open();
  std::vector<std::byte> bytes(8 * kMiB);
  std::atomic<bool> over{false};
  std::thread canceller([&] {
    while (!over) lane->cancel();
  });
  for (int i = 0; i < 200; ++i) {
    Completion completion;
    Move move = Move::fill(bytes, std::byte{1});
    move.completion = &completion;
    EXPECT_NE(lane->wait(*lane->submit(move, SubmitMode::synchronous), Deadline::never(),
                         WaitStrategy::sleep),
              Outcome::pending);
    EXPECT_EQ(completion.outcome == Outcome::done, completion.bytes_done == bytes.size());
  }
  over = true;
  canceller.join();
}

TEST(ThreadCore, NobodyIsWokenForAWorkerThatIsAwake) {
  Gate gate(4 * kMiB);
  if (!gate.is_usable()) GTEST_SKIP() << "no userfaultfd(2) for this user";
  gate.shut(0);
  const Rig rig(std::vector<WorkerPlace>(1));
  const auto lane = rig.open();
  std::vector<std::byte> copy(gate.bytes().size()), bytes(kMiB);
  static_cast<void>(*lane->submit(Move::copy(copy, gate.bytes())));
  ASSERT_EQ(gate.await(), 0u);
  const std::uint64_t before = rig.core->wake_ups();
  Ticket last{};
  for (int i = 0; i < 20; ++i) last = *lane->submit(Move::fill(bytes, std::byte{1}));
  EXPECT_EQ(rig.core->wake_ups(), before);
  EXPECT_EQ(rig.core->load(), gate.bytes().size() + 20 * kMiB);
  gate.open(0);
  EXPECT_EQ(lane->wait(last, Deadline::never(), WaitStrategy::sleep), Outcome::done);
}

// All memory is said to lie on node 7, whose only worker stands still: node 3's does the rest.
TEST(ThreadCore, IdleWorkersOfOtherNodesHelpOut) {
  Gate gate(4 * kMiB);
  if (!gate.is_usable()) GTEST_SKIP() << "no userfaultfd(2) for this user";
  gate.shut(0);
  const Rig rig({{.node = 3, .cpus = {}}, {.node = 7, .cpus = {}}},
                [](const void*) noexcept { return 7; });
  const auto lane = rig.open(), other = rig.open();
  std::vector<std::byte> copy(gate.bytes().size()), bytes(NodeGroups::kAskedFrom);
  const Ticket gated = *lane->submit(Move::copy(copy, gate.bytes()));
  ASSERT_EQ(gate.await(), 0u);
  const Ticket ticket = *other->submit(Move::fill(bytes, std::byte{1}));
  EXPECT_EQ(other->wait(ticket, Deadline::never(), WaitStrategy::sleep), Outcome::done);
  gate.open(0);
  EXPECT_EQ(lane->wait(gated, Deadline::never()), Outcome::done);
}

TEST(ThreadCore, LearnsItsRateAndCountsItsCpu) {
  const Rig rig(std::vector<WorkerPlace>(1));
  const auto lane = rig.open();
  std::vector<std::byte> bytes(8 * kMiB);
  Completion completion;
  Move move = Move::fill(bytes, std::byte{1});
  move.completion = &completion;
  const double before = rig.core->cost().bytes_per_ns;
  EXPECT_EQ(lane->wait(*lane->submit(move), Deadline::never(), WaitStrategy::sleep), Outcome::done);
  EXPECT_NE(rig.core->cost().bytes_per_ns, before);
  EXPECT_GT(completion.helper_cpu_ns, 0u);
  EXPECT_GE(rig.core->report().helper_cpu_ns, completion.helper_cpu_ns);
  EXPECT_EQ(rig.core->report().helped_bytes, 0u);
}

}  // namespace
}  // namespace gantry
