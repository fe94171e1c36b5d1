#include "core/channel/wire/acceptor.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <fstream>
#include <future>
#include <latch>

#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/test_lingering.hpp"
#include "core/channel/test_support.hpp"

namespace gantry {
namespace {

/// Tells what it was called for; `act` is what it does then.
class Recorder final : public AcceptHandler {
 public:
  void ready(std::uint64_t token) override {
    act(token);
    calls.fetch_add(1, std::memory_order_release);
  }
  void roused() override {
    act_roused();
    rousings.fetch_add(1, std::memory_order_release);
  }

  std::function<void(std::uint64_t)> act = [](std::uint64_t) {};
  std::function<void()> act_roused = [] {};
  std::atomic<int> calls{0}, rousings{0};
};

void await(const std::atomic<int>& count, int wanted) {
  while (count.load(std::memory_order_acquire) < wanted) std::this_thread::yield();
}

class Accepting : public testing::Test {
 protected:
  std::shared_ptr<Acceptor> acceptor_ = *Acceptor::make();
  Fd event_ = *make_event();
  Recorder handler_;
};

TEST_F(Accepting, TellsWhatIsReadyUnderItsToken) {
  ASSERT_TRUE(acceptor_->add(handler_));
  std::atomic<std::uint64_t> seen{0};
  handler_.act = [&](std::uint64_t token) {
    drain(event_.get());
    seen.store(token, std::memory_order_relaxed);
  };
  const auto watch = acceptor_->watch(handler_, event_.get(), 42);
  ASSERT_TRUE(watch);
  ring(event_.get());
  await(handler_.calls, 1);
  EXPECT_EQ(seen.load(std::memory_order_relaxed), 42u);
  acceptor_->remove(handler_);
}

TEST_F(Accepting, WhatFoundNoThreadToCloseItIsClosedByTheWay) {
  test::Lingering lingering;
  const int waiting = test::close_without_threads(lingering);
  if (waiting < 0) GTEST_SKIP() << "no filters of system calls";
  EXPECT_TRUE(test::is_open(waiting));  // the acceptor's thread is started by add()
  ASSERT_TRUE(acceptor_->add(handler_));
  acceptor_->rouse(handler_);
  while (test::is_open(waiting)) std::this_thread::yield();
  acceptor_->remove(handler_);
}

/// How often that thread of this process has slept.
std::string sleeps_of(pid_t thread) {
  std::ifstream status(fmt::format("/proc/self/task/{}/status", thread));
  std::string line;
  while (std::getline(status, line) && !line.starts_with("voluntary_ctxt_switches:")) continue;
  return line;
}

TEST_F(Accepting, ItTriesAgainForAThreadThoughNothingHappens) {
  ASSERT_TRUE(acceptor_->add(handler_));
  std::atomic<pid_t> thread{0};
  std::atomic<bool> refuses{false};
  handler_.act_roused = [&] {
    if (thread != 0) return;
    refuses = test::refuse_calls({{SYS_clone3, EAGAIN}, {SYS_clone, EAGAIN}});
    thread = ::gettid();
  };
  acceptor_->rouse(handler_);  // before there is anything to close: any look would find a thread
  await(handler_.rousings, 1);
  test::Lingering lingering;
  const int waiting = test::close_without_threads(lingering);
  if (waiting < 0) GTEST_SKIP() << "no filters of system calls";
  EXPECT_TRUE(refuses);
  acceptor_->rouse(handler_);
  await(handler_.rousings, 2);
  const Deadline hung = test::soon();
  for (int tries = 0; tries < 3; ++tries)
    for (const auto before = sleeps_of(thread); sleeps_of(thread) == before && !hung.passed();)
      std::this_thread::yield();
  EXPECT_FALSE(hung.passed());
  EXPECT_TRUE(test::is_open(waiting));
  EXPECT_TRUE(close_what_waits());
  acceptor_->remove(handler_);
}

TEST_F(Accepting, AHandlerThatFindsNoHeapIsCalledAgain) {
  ASSERT_TRUE(acceptor_->add(handler_));
  std::atomic<int> tries{0}, rousings{0};
  handler_.act = [&](std::uint64_t) {
    if (tries.fetch_add(1) < 3) throw std::bad_alloc();
  };
  handler_.act_roused = [&] {
    if (rousings.fetch_add(1) < 3) throw std::bad_alloc();
  };
  const auto watch = acceptor_->watch(handler_, event_.get(), 1, Acceptor::Tell::once);
  ASSERT_TRUE(watch);
  ring(event_.get());
  await(handler_.calls, 1);
  EXPECT_EQ(tries.load(), 4);
  acceptor_->rouse(handler_);
  await(handler_.rousings, 1);
  EXPECT_EQ(rousings.load(), 4);
  acceptor_->remove(handler_);
}

TEST_F(Accepting, WhatTellsOnceTellsAllWhoWatchIt) {
  Recorder other;
  ASSERT_TRUE(acceptor_->add(handler_));
  ASSERT_TRUE(acceptor_->add(other));
  const auto first = acceptor_->watch(handler_, event_.get(), 1, Acceptor::Tell::once);
  const auto second = acceptor_->watch(other, event_.get(), 2, Acceptor::Tell::once);
  ASSERT_TRUE(first && second);
  ring(event_.get());
  await(handler_.calls, 1);
  await(other.calls, 1);
  acceptor_->rouse(handler_);  // it stays readable, and is not told of again
  await(handler_.rousings, 1);
  EXPECT_EQ(handler_.calls.load(std::memory_order_acquire), 1);
  acceptor_->remove(handler_);
  acceptor_->remove(other);
}

TEST_F(Accepting, AWatchThatEndedTellsNothingThoughACopyOfItsDescriptorLives) {
  ASSERT_TRUE(acceptor_->add(handler_));
  auto watch = acceptor_->watch(handler_, event_.get(), 1);
  ASSERT_TRUE(watch);
  const Fd copy(::fcntl(event_.get(), F_DUPFD_CLOEXEC, 0));
  watch->end();
  event_.reset();
  ring(copy.get());
  acceptor_->rouse(handler_);
  await(handler_.rousings, 1);
  EXPECT_EQ(handler_.calls.load(std::memory_order_acquire), 0);
  acceptor_->remove(handler_);
}

// I1: nothing of it is touched after that.
TEST_F(Accepting, RemoveWaitsForTheCallThatIsGoingOn) {
  ASSERT_TRUE(acceptor_->add(handler_));
  std::latch inside(1), go_on(1);
  std::atomic<bool> left{false};
  handler_.act = [&](std::uint64_t) {
    drain(event_.get());
    inside.count_down();
    go_on.wait();
    left.store(true, std::memory_order_relaxed);
  };
  const auto watch = acceptor_->watch(handler_, event_.get(), 1);
  ring(event_.get());
  inside.wait();
  auto removed = std::async(std::launch::async, [&] {
    acceptor_->remove(handler_);
    return left.load(std::memory_order_relaxed);
  });
  go_on.count_down();
  EXPECT_TRUE(removed.get());
}

// I3: while one is at work another one goes.
TEST_F(Accepting, RemoveDoesNotWaitForAnother) {
  Recorder other;
  ASSERT_TRUE(acceptor_->add(handler_));
  ASSERT_TRUE(acceptor_->add(other));
  std::latch inside(1), go_on(1);
  handler_.act = [&](std::uint64_t) {
    drain(event_.get());
    inside.count_down();
    go_on.wait();
  };
  const auto watch = acceptor_->watch(handler_, event_.get(), 1);
  ring(event_.get());
  inside.wait();
  acceptor_->remove(other);  // would hang
  go_on.count_down();
  acceptor_->remove(handler_);
}

TEST_F(Accepting, WakesAtItsTime) {
  ASSERT_TRUE(acceptor_->add(handler_));
  acceptor_->wake_at(handler_, Deadline::after(std::chrono::milliseconds(1)));
  await(handler_.rousings, 1);
  acceptor_->wake_at(handler_, Deadline::never());
  acceptor_->remove(handler_);
}

TEST_F(Accepting, GivesOnePidfdForAProcess) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd left(ends[0]), right(ends[1]);
  const auto life = [&] { return *peer_pidfd(left.get(), ::getpid()); };
  if (process_of(life().get()) == 0) GTEST_SKIP() << "this kernel does not name processes";
  const SharedFd first = acceptor_->share(life());
  EXPECT_EQ(acceptor_->share(life()).get(), first.get());
}

TEST_F(Accepting, LendsAnEventToOneAtATime) {
  SharedFd first = *acceptor_->lend_event();
  const SharedFd second = *acceptor_->lend_event();
  const int number = first.get();
  EXPECT_NE(number, second.get());
  first.reset();
  EXPECT_EQ(acceptor_->lend_event()->get(), number);
}

}  // namespace
}  // namespace gantry
