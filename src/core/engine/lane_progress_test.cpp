#include "core/engine/lane_progress.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <vector>

#include "core/base/event.hpp"

namespace gantry {
namespace {

// A model of sleep() against retire() and announce(): every operation on memory is a step, and all
// orders of the steps are tried (all are seq_cst, so there are no others). I1 to I3 of the header.
class WakeUpModel {
 public:
  enum class Step : std::uint8_t { count, read_word, look, wait, end, change, wake };
  using Steps = std::vector<Step>;

  // Whether there is an order after which the sleeper sleeps for ever.
  static bool loses_a_wake_up(const Steps& sleeper, const Steps& retirer) {
    return WakeUpModel(sleeper, retirer).explore({});
  }

 private:
  struct State {
    std::size_t sleeper = 0, retirer = 0;  // steps done
    bool counted = false, ended = false, asleep = false, leaves = false;
    int word = 0, word_seen = 0;
  };

  WakeUpModel(const Steps& sleeper, const Steps& retirer) : sleeper_(sleeper), retirer_(retirer) {}

  static void run(Step step, State& state) {
    if (step == Step::count) state.counted = true;
    if (step == Step::read_word) state.word_seen = state.word;
    if (step == Step::look) state.leaves = state.ended;
    if (step == Step::wait) state.asleep = !state.leaves && state.word == state.word_seen;
    if (step == Step::end) state.ended = true;
    if (step == Step::change) ++state.word;
    if (step == Step::wake && state.counted) state.asleep = false;
  }

  [[nodiscard]] bool explore(State state) const {
    const bool sleeper_done = state.asleep || state.sleeper == sleeper_.size();
    if (sleeper_done && state.retirer == retirer_.size()) return state.asleep;
    bool lost = false;
    if (!sleeper_done) {
      State next = state;
      run(sleeper_[next.sleeper++], next);
      lost |= explore(next);
    }
    if (state.retirer < retirer_.size()) {
      State next = state;
      run(retirer_[next.retirer++], next);
      lost |= explore(next);
    }
    return lost;
  }

  const Steps& sleeper_;
  const Steps& retirer_;
};

TEST(LaneProgress, TheOrderOfItsStepsLosesNoWakeUpAndEachOtherOrderDoes) {
  using enum WakeUpModel::Step;
  const WakeUpModel::Steps sleeper{count, read_word, look, wait}, retirer{end, change, wake};
  EXPECT_FALSE(WakeUpModel::loses_a_wake_up(sleeper, retirer));
  EXPECT_TRUE(WakeUpModel::loses_a_wake_up({read_word, look, count, wait}, {end, wake, change}));
  EXPECT_TRUE(WakeUpModel::loses_a_wake_up({count, look, read_word, wait}, retirer));
  EXPECT_TRUE(WakeUpModel::loses_a_wake_up({read_word, look, wait, count}, retirer));
  EXPECT_TRUE(WakeUpModel::loses_a_wake_up(sleeper, {change, wake, end}));
  EXPECT_TRUE(WakeUpModel::loses_a_wake_up(sleeper, {end, wake}));
  EXPECT_TRUE(WakeUpModel::loses_a_wake_up(sleeper, {end, change}));
}

// Two threads in turn, each asleep until the other has retired: a wake-up that is lost once stops
// both for good. Seen to stop without the wake.
TEST(LaneProgress, NoWakeUpIsLost) {
  constexpr std::uint64_t kTurns = 50'000;
  LaneProgress ping, pong;
  std::uint64_t data = 0;  // handed back and forth: ThreadSanitizer sees whether [E] orders it
  const auto await = [](LaneProgress& progress, std::uint64_t turn) {
    while (!progress.has_ended(Ticket{turn})) progress.sleep(Ticket{turn}, kForever);
  };
  std::thread other([&] {
    for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
      await(ping, turn);
      data += 1;
      pong.retire(Outcome::done);
      pong.announce();
    }
  });
  for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
    data += 1;
    ping.retire(Outcome::done);
    ping.announce();
    await(pong, turn);
  }
  other.join();
  EXPECT_EQ(data, 2 * kTurns);
}

TEST(LaneProgress, RemembersTheLatestFailures) {
  LaneProgress progress;
  constexpr std::uint64_t kMoves = 3 * LaneProgress::kRememberedFailures;
  for (std::uint64_t ticket = 1; ticket <= kMoves; ++ticket)
    progress.retire(ticket % 2 == 0 ? Outcome::failed : Outcome::done);
  EXPECT_EQ(progress.outcome(Ticket{kMoves + 1}), Outcome::pending);
  for (std::uint64_t ticket = kMoves; ticket > kMoves - 2 * LaneProgress::kRememberedFailures;
       --ticket)
    ASSERT_EQ(progress.outcome(Ticket{ticket}), ticket % 2 == 0 ? Outcome::failed : Outcome::done);
}

TEST(LaneProgress, TheEventTellsOfEndsFromBeforeItWasAskedFor) {
  LaneProgress progress;
  progress.retire(Outcome::done);
  progress.announce();
  const auto event = progress.event_descriptor();
  ASSERT_TRUE(event);
  pollfd entry{*event, POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
  drain(*event);
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  progress.retire(Outcome::done);
  progress.announce();
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
  EXPECT_EQ(*progress.event_descriptor(), *event);
}

TEST(LaneProgress, ASleepEndsAtItsTime) {
  LaneProgress progress;
  progress.sleep(Ticket{1}, 1);  // long ago
  EXPECT_FALSE(progress.has_ended(Ticket{1}));
}

}  // namespace
}  // namespace gantry
