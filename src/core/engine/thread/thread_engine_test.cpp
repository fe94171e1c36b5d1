#include "core/engine/thread/thread_engine.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <thread>

#include "core/base/sizes.hpp"
#include "core/engine/thread/test_gate.hpp"
#include "core/engine/thread/thread_lane.hpp"

namespace gantry {
namespace {

std::shared_ptr<Engine> engine_of(std::size_t workers, double helping_gain = 2) {
  return *make_thread_engine(
      {.workers = std::vector<WorkerPlace>(workers), .helping_gain = helping_gain});
}

Move with(Move move, Completion& completion) {
  move.completion = &completion;
  return move;
}

// A move of another lane from which the only worker does not come back before open().
class ThreadEngineGate : public testing::Test {
 protected:
  void SetUp() override {
    if (!gate_.is_usable()) GTEST_SKIP() << "no userfaultfd(2) for this user";
  }
  Ticket submit_gated(Lane& lane) {
    return *lane.submit(with(Move::copy(copy_, gate_.bytes()), completion_));
  }

  Gate gate_{8 * kMiB};
  std::vector<std::byte> copy_ = std::vector<std::byte>(gate_.bytes().size());
  Completion completion_;
};

TEST(ThreadEngine, RefusesNoWorkersAndTooMany) {
  for (const std::size_t workers : {std::size_t{0}, kMaxWorkers + 1}) {
    const auto engine = make_thread_engine({.workers = std::vector<WorkerPlace>(workers)});
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, Code::invalid_argument);
    EXPECT_EQ(engine.error().message,
              std::to_string(workers) + " copy threads: 1 to 64 are possible");
  }
}

TEST(ThreadEngine, WorksOnCpusThatItMayNotHave) {
  const auto engine = *make_thread_engine({.workers = {{0, {100'000}}, {5, {0}}}});
  const auto lane = *engine->open_lane();
  std::vector<std::byte> from(3 * kMiB, std::byte{7}), to(from.size());
  EXPECT_EQ(lane->wait(*lane->submit(Move::copy(to, from)), Deadline::never(), WaitStrategy::sleep),
            Outcome::done);
  EXPECT_EQ(to, from);
}

// The worker stands in the large move; when it goes on, the small one's turn comes before it gets
// to a second shut page, 2 MiB further on.
TEST_F(ThreadEngineGate, ASmallMoveEndsBetweenUnitsOfALargeOne) {
  gate_.shut(0);
  gate_.shut(2 * kMiB);
  const auto engine = engine_of(1);
  const auto large = *engine->open_lane(), small = *engine->open_lane();
  const Ticket gated = submit_gated(*large);
  ASSERT_EQ(gate_.await(), 0u);
  std::array<std::byte, 4096> from{}, to{};
  from.fill(std::byte{9});
  const Ticket ticket = *small->submit(Move::copy(to, from));
  EXPECT_EQ(small->outcome(ticket), Outcome::pending);
  gate_.open(0);
  EXPECT_EQ(small->wait(ticket, Deadline::never(), WaitStrategy::sleep), Outcome::done);
  EXPECT_EQ(to, from);
  ASSERT_EQ(gate_.await(), 2 * kMiB);
  EXPECT_EQ(large->outcome(gated), Outcome::pending);
  gate_.open(2 * kMiB);
  EXPECT_EQ(large->wait(gated), Outcome::done);
}

TEST_F(ThreadEngineGate, AWaiterDoesItsOwnMovesWhileTheWorkersAreBusy) {
  for (const double gain : {2.0, 1.0}) {
    const auto engine = engine_of(1, gain);
    const auto large = *engine->open_lane(), own = *engine->open_lane();
    gate_.shut(0);
    const Ticket gated = submit_gated(*large);
    ASSERT_EQ(gate_.await(), 0u);
    std::vector<std::byte> from(2 * kMiB, std::byte{3}), to(from.size());
    EXPECT_EQ(own->wait(*own->submit(Move::copy(to, from))), Outcome::done);
    EXPECT_EQ(engine->report().helped_bytes, from.size());
    EXPECT_EQ(to, from);
    gate_.open(0);
    EXPECT_EQ(large->wait(gated, Deadline::never(), WaitStrategy::sleep), Outcome::done);
  }
}

TEST_F(ThreadEngineGate, CancellingMidwayKeepsWhatIsDoneAndEndsEveryTicket) {
  gate_.shut(kMiB);
  const auto engine = engine_of(1);
  const auto lane = *engine->open_lane();
  std::vector<std::byte> never(4096);
  Completion later;
  const Ticket first = submit_gated(*lane);
  const Ticket second = *lane->submit(with(Move::fill(never, std::byte{1}), later));
  ASSERT_EQ(gate_.await(), kMiB);
  lane->cancel();
  EXPECT_EQ(lane->outcome(first), Outcome::pending);  // its unit is in the worker's hands
  gate_.open(kMiB);
  EXPECT_EQ(lane->wait(second, Deadline::never(), WaitStrategy::sleep), Outcome::failed);
  EXPECT_EQ(lane->outcome(first), Outcome::failed);
  EXPECT_EQ(completion_.cause, Cause::cancelled);
  EXPECT_GT(completion_.bytes_done, kMiB);
  EXPECT_LE(completion_.bytes_done, kMiB + kUnitBytes);
  const auto end = copy_.begin() + static_cast<std::ptrdiff_t>(completion_.bytes_done);
  EXPECT_TRUE(std::equal(copy_.begin(), end, gate_.bytes().begin()));
  EXPECT_TRUE(std::all_of(end, copy_.end(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(later.cause, Cause::cancelled);
  EXPECT_EQ(later.bytes_done, 0u);
  EXPECT_EQ(never.front(), std::byte{0});
  EXPECT_EQ(engine->load(), 0u);
  EXPECT_EQ(lane->wait(*lane->submit(Move::fill(never, std::byte{1}))), Outcome::done);
}

TEST_F(ThreadEngineGate, AFullLaneRefusesUntilAMoveEnds) {
  gate_.shut(0);
  std::vector<std::byte> other(4096);
  std::vector<std::byte> last(4096);
  const auto engine = engine_of(2);
  const auto lane = *engine->open_lane({.depth = 2, .full = LaneOptions::Full::refuse});
  const Ticket gated = submit_gated(*lane);
  const Move fill = Move::fill(other, std::byte{1});
  ASSERT_TRUE(lane->submit(fill));
  ASSERT_EQ(gate_.await(), 0u);
  const auto refused = lane->submit(fill);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::busy);
  gate_.open(0);
  EXPECT_EQ(lane->wait(gated, Deadline::never(), WaitStrategy::sleep), Outcome::done);
  EXPECT_TRUE(lane->submit(Move::fill(last, std::byte{1})));  // the first fill may still run
}

TEST_F(ThreadEngineGate, AForkedChildIsToldThatItHasNoWorkers) {
  gate_.shut(0);
  auto engine = engine_of(1);
  auto lane = *engine->open_lane();
  const Ticket gated = submit_gated(*lane);
  ASSERT_EQ(gate_.await(), 0u);
  const pid_t child = ::fork();
  if (child == 0) {
    std::array<std::byte, 64> bytes{};
    const auto refused = lane->submit(Move::fill(bytes, std::byte{1}));
    int wrong = refused || refused.error().code != Code::closed ? 1 : 0;
    if (engine->open_lane() || lane->event_descriptor()) wrong |= 2;
    for (const WaitStrategy way :
         {WaitStrategy::sleep, WaitStrategy::hybrid, WaitStrategy::poll, WaitStrategy::automatic})
      if (lane->wait(gated, Deadline::never(), way) != Outcome::failed) wrong |= 4;
    lane->cancel();
    lane.reset();
    engine.reset();
    ::_exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  gate_.open(0);
  EXPECT_EQ(lane->wait(gated), Outcome::done);
}

// Others' units run at the same time; what is certain ends at the bad page all the same.
TEST(ThreadEngine, APageThatIsMissingFailsItsMoveAlone) {
  for (const std::size_t workers : {1u, 3u}) {
    const auto engine = engine_of(workers);
    const auto lane = *engine->open_lane(), other = *engine->open_lane();
    Gate from(8 * kMiB);
    std::vector<std::byte> to(from.bytes().size()), intact(from.bytes().size());
    ASSERT_EQ(::mprotect(from.bytes().data() + 3 * kMiB, Gate::kPage, PROT_NONE), 0);
    Completion bad, good;
    const auto half = ConstByteSpan(from.bytes()).first(3 * kMiB);
    const Ticket failing = *lane->submit(with(Move::copy(to, from.bytes()), bad));
    const Ticket beside = *other->submit(with(Move::copy(intact, half), good));
    const Ticket behind =
        *lane->submit(Move::fill(ByteSpan(intact).subspan(4 * kMiB), std::byte{2}));
    EXPECT_EQ(lane->wait(failing), Outcome::failed);
    EXPECT_EQ(other->wait(beside), Outcome::done);
    EXPECT_EQ(lane->wait(behind), Outcome::done);
    EXPECT_EQ(bad.cause, Cause::unreadable);
    EXPECT_EQ(bad.bytes_done, 3 * kMiB);
    EXPECT_EQ(bad.fault_address / Gate::kPage * Gate::kPage,
              reinterpret_cast<std::uintptr_t>(from.bytes().data()) + 3 * kMiB);
    EXPECT_TRUE(std::equal(half.begin(), half.end(), to.begin()));
    EXPECT_TRUE(std::equal(half.begin(), half.end(), intact.begin()));
    EXPECT_EQ(engine->report().failed, 1u);
    EXPECT_EQ(engine->load(), 0u);
  }
}

TEST(ThreadEngine, CancellingAndClosingLanesWhileOthersWorkLosesNothing) {
  const auto engine = engine_of(2);
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (unsigned who = 0; who < 3; ++who)
    users.emplace_back([&, who] {
      std::vector<std::byte> from(kMiB, std::byte{1}), to(from.size()), other(from.size());
      for (unsigned i = 0; i < 40; ++i) {
        Completion completion;
        const auto lane = *engine->open_lane({.depth = 5});
        for (Bytes k = 0; k < 4; ++k)  // a place for each: they run at the same time
          static_cast<void>(lane->submit(
              Move::fill(ByteSpan(other).subspan(k * kMiB / 4, kMiB / 4), std::byte{2})));
        const Ticket last = *lane->submit(with(Move::copy(to, from), completion));
        if ((i + who) % 3 == 0) lane->cancel();
        if (i % 2 == 0 && lane->wait(last) != completion.outcome) wrong.fetch_add(1);
      }
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(engine->report().moves, 3u * 40 * 5);
  EXPECT_EQ(engine->load(), 0u);
}

}  // namespace
}  // namespace gantry
