#include "core/engine/lane_base.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace gantry {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A lane of one move, which ends as the test says and predicts what the test says.
class FakeTarget final : public WaitTarget {
 public:
  bool help(Ticket) override {
    if (helps_ == 0) return false;
    if (--helps_ == 0) end();
    return true;
  }
  std::size_t poll_once() override {
    if (early_polls_do_nothing_ && asked_ == 0) return 0;
    ++polls_;
    if (polls_to_go_ == 0 || --polls_to_go_ > 0) return 0;
    end();
    return 1;
  }
  [[nodiscard]] nanoseconds left(Ticket) const noexcept override {
    ++asked_;
    return left_;
  }
  [[nodiscard]] bool ends_unpolled() const noexcept override { return ends_unpolled_; }
  [[nodiscard]] LaneProgress& awaited() noexcept override { return progress_; }

  void end() {
    progress_.retire(Outcome::done);
    progress_.announce();
  }

  nanoseconds left_{};
  bool ends_unpolled_ = true;
  int helps_ = 0;
  int polls_to_go_ = 0;
  bool early_polls_do_nothing_ = true;  // before it was asked for a prediction
  int polls_ = 0;
  mutable std::atomic<int> asked_{0};

 private:
  LaneProgress progress_;
};

constexpr Ticket kFirst{1};

// A wait that believed the prediction would last an hour.
TEST(Waiter, AWrongPredictionDoesNotMakeItMissAnEndThatWakes) {
  for (const WaitStrategy waiting :
       {WaitStrategy::hybrid, WaitStrategy::automatic, WaitStrategy::sleep}) {
    FakeTarget target;
    target.left_ = hours(1);
    Waiter waiter;
    std::thread ender([&] {
      while (waiting != WaitStrategy::sleep && target.asked_ == 0) std::this_thread::yield();
      target.end();
    });
    EXPECT_EQ(waiter.wait(target, kFirst, Deadline::never(), waiting), Outcome::done);
    ender.join();
  }
}

TEST(Waiter, AWrongPredictionDoesNotMakeItMissAnEndThatOnlyPollingSees) {
  FakeTarget target;
  target.left_ = hours(1);
  target.ends_unpolled_ = false;
  target.polls_to_go_ = 20;  // one a sleep
  Waiter waiter;
  EXPECT_EQ(waiter.wait(target, kFirst, Deadline::never(), WaitStrategy::hybrid), Outcome::done);
  EXPECT_EQ(target.polls_, 20);
}

TEST(Waiter, AnOverdueMoveIsPolledAndThenSleptForAgain) {
  FakeTarget target;
  target.ends_unpolled_ = false;
  target.polls_to_go_ = 100'000;
  Waiter waiter;
  EXPECT_EQ(waiter.wait(target, kFirst, Deadline::never(), WaitStrategy::hybrid), Outcome::done);
}

TEST(Waiter, PollingNeverAsksForAPrediction) {
  FakeTarget target;
  target.left_ = hours(1);
  target.ends_unpolled_ = false;
  target.polls_to_go_ = 1000;
  target.early_polls_do_nothing_ = false;
  Waiter waiter;
  EXPECT_EQ(waiter.wait(target, kFirst, Deadline::never(), WaitStrategy::poll), Outcome::done);
  EXPECT_EQ(target.asked_, 0);
}

TEST(Waiter, ADeadlineIsAnAnswer) {
  FakeTarget target;
  target.left_ = hours(1);
  for (const WaitStrategy waiting :
       {WaitStrategy::automatic, WaitStrategy::hybrid, WaitStrategy::poll, WaitStrategy::sleep}) {
    Waiter waiter;
    EXPECT_EQ(waiter.wait(target, kFirst, Deadline::now(), waiting), Outcome::pending);
    EXPECT_EQ(waiter.wait(target, kFirst, Deadline::after(milliseconds(2)), waiting),
              Outcome::pending);
  }
}

TEST(Waiter, HelpsFirstWhenItMayChoose) {
  FakeTarget target;
  target.helps_ = 3;
  Waiter waiter;
  const auto soon = Deadline::after(milliseconds(2));
  EXPECT_EQ(waiter.wait(target, kFirst, soon, WaitStrategy::hybrid), Outcome::pending);
  EXPECT_EQ(target.helps_, 3);
  EXPECT_EQ(waiter.wait(target, kFirst, Deadline::never(), WaitStrategy::automatic), Outcome::done);
  EXPECT_EQ(target.helps_, 0);
}

TEST(Waiter, SleepsOnlyWhatIsLongerThanASleepCosts) {
  const Waiter waiter;
  EXPECT_EQ(waiter.sleepable(nanoseconds(0)).count(), 0);
  EXPECT_EQ(waiter.sleepable(microseconds(20)).count(), 0);
  EXPECT_GT(waiter.sleepable(milliseconds(20)), milliseconds(10));
  EXPECT_LT(waiter.sleepable(milliseconds(20)), milliseconds(20));
}

// Moves that end while it sleeps teach it to sleep less of what is predicted.
TEST(Waiter, LearnsToMistrustPredictionsThatAreTooLong) {
  Waiter waiter;
  const auto before = waiter.sleepable(hours(1));  // a timer's lateness is nothing beside that
  for (int i = 0; i < 8; ++i) {
    FakeTarget target;
    target.left_ = hours(1);
    target.ends_unpolled_ = false;
    target.polls_to_go_ = 1;
    EXPECT_EQ(waiter.wait(target, kFirst, Deadline::never(), WaitStrategy::hybrid), Outcome::done);
  }
  EXPECT_LT(waiter.sleepable(hours(1)), before / 4 * 3);
}

}  // namespace
}  // namespace gantry
