#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <functional>

#include "core/base/event.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/os/socket.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// Two real processes; one is killed. The survivor is told, and nothing stays behind.
namespace gantry {
namespace {

using test::Child;
using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class Processes : public testing::Test {
 protected:
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

TEST_F(Processes, CarryMessagesAcross) {
  Child child([this](const Child&) {
    auto out = make_producer("frames", options_);
    bool good = out.has_value();
    for (std::uint64_t i = 0; good && i < 40; ++i)
      good = out->send(pattern(i * 100'000, i), soon()).has_value();
    ::_exit(good && out->close(soon()) ? 0 : 1);
  });
  auto in = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(in) << in.error().message;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto message = in->receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_TRUE(same(message->bytes(), pattern(i * 100'000, i))) << i;
  }
  EXPECT_EQ(in->receive(soon()).error().code, Code::closed);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Processes, AKilledProducerIsSeenAfterWhatItPublished) {
  Child child([this](const Child& self) {
    auto out = make_producer("frames", options_);
    auto unfinished = out->loan(kMiB, soon());
    if (out->send(pattern(kMiB, 1), soon())) self.report();
    Child::hold();
  });
  auto in = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(in);
  child.await_report();
  EXPECT_EQ(WTERMSIG(child.end(SIGKILL)), SIGKILL);
  const auto whole = in->receive(soon());
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_TRUE(same(whole->bytes(), pattern(kMiB, 1)));
  const auto gone = in->receive(soon());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::peer_gone);
  EXPECT_TRUE(directory_.is_empty()) << "the survivor sweeps the socket";
}

// The acceptor has the CPU only while the producer waits, and loses it when it wakes the producer,
// which sends and dies: by then the consumer has been told that it joined.
TEST_F(Processes, WhatWasSentToWhoeverJoinedArrives) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    Child child([&](const Child&) {
      cpu_set_t one{};
      CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
      ::sched_setaffinity(0, sizeof one, &one);
      const sched_param none{};
      ::sched_setscheduler(0, SCHED_IDLE, &none);
      options_.spin = std::chrono::nanoseconds(0);
      auto out = make_producer("frames", options_);  // starts the acceptor's thread
      ::sched_setscheduler(0, SCHED_OTHER, &none);   // where it is not allowed, both have the same
      if (out && out->wait_for_consumer(soon()) && out->send(pattern(100, i), soon()))
        ::raise(SIGKILL);
      ::_exit(1);
    });
    auto in = Consumer::open("frames", consumer_options(options_), soon());
    ASSERT_TRUE(in) << in.error().message;
    const auto message = in->receive(soon());
    ASSERT_TRUE(message) << i << ": " << message.error().message;
    EXPECT_TRUE(same(message->bytes(), pattern(100, i)));
    EXPECT_EQ(in->receive(soon()).error().code, Code::peer_gone);
    EXPECT_EQ(WTERMSIG(child.wait()), SIGKILL);
  }
}

TEST_F(Processes, ASleepingConsumerIsWokenByItsProducersDeath) {
  Child child([this](const Child& self) {
    auto out = make_producer("frames", options_);
    if (out->wait_for_consumer(soon())) self.report();
    Child::hold();
  });
  options_.spin = std::chrono::nanoseconds(0);
  auto in = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(in);
  child.await_report();
  // The kill comes from yet another process, after this one has gone to receive; whichever comes
  // first, the answer must be the same.
  child.end(SIGKILL);
  EXPECT_EQ(in->receive(soon()).error().code, Code::peer_gone);
}

TEST_F(Processes, AKilledConsumerFreesTheProducerFromWaiting) {
  options_.slots = 1;
  auto out = make_producer("frames", options_);
  ASSERT_TRUE(out);
  Child child([this](const Child& self) {
    auto in = Consumer::open("frames", consumer_options(options_), soon());
    const auto held = in->receive(soon());
    self.report();
    Child::hold();
  });
  ASSERT_TRUE(out->send(pattern(1000, 1), soon()));
  child.await_report();
  child.end(SIGKILL);
  const auto sent = out->send(pattern(1000, 2), soon());
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::peer_gone);
}

TEST_F(Processes, AKilledProducersNameCanBeTakenAgain) {
  Child child([this](const Child& self) {
    auto out = make_producer("frames", options_);
    self.report();
    Child::hold();
  });
  child.await_report();
  EXPECT_EQ(make_producer("frames", options_).error().code, Code::already_exists);
  child.end(SIGKILL);
  EXPECT_FALSE(directory_.is_empty()) << "its socket is still there";
  {
    const auto successor = make_producer("frames", options_);
    EXPECT_TRUE(successor) << successor.error().message;
  }
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(Processes, ListingSweepsTheDead) {
  Child child([this](const Child& self) {
    auto out = make_producer("frames", options_);
    self.report();
    Child::hold();
  });
  child.await_report();
  child.end(SIGKILL);
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed);
  EXPECT_TRUE(listed->empty());
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(Processes, AStoppedProducerKeepsNobodyFromBeingInterrupted) {
  Child child([this](const Child& self) {
    auto out = make_producer("frames", options_);
    self.report();
    Child::hold();
  });
  child.await_report();
  child.stop();
  const Fd interrupt = *make_event();
  ring(interrupt.get());
  options_.interrupt_descriptor = interrupt.get();
  EXPECT_EQ(Consumer::open("frames", consumer_options(options_), soon()).error().code,
            Code::interrupted);
  options_.interrupt_descriptor = -1;
  const auto late = Consumer::open("frames", consumer_options(options_), Deadline::now());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::timed_out);
  EXPECT_THAT(late.error().message, testing::HasSubstr("does not answer"));
}

TEST_F(Processes, AStoppedConsumerIsToldFromADeadOne) {
  auto out = make_producer("frames", options_);
  ASSERT_TRUE(out);
  Child child([this](const Child& self) {
    auto in = Consumer::open("frames", consumer_options(options_), soon());
    const auto held = in->receive(soon());
    self.report();
    Child::hold();
  });
  ASSERT_TRUE(out->send(pattern(1000, 1), soon()));
  child.await_report();
  const auto state = [this] {
    const auto listed = list_channels(directory_.path());
    return listed->at(0).consumers.at(0).state;
  };
  EXPECT_EQ(state(), ProcessState::running);
  child.stop();
  EXPECT_EQ(state(), ProcessState::stopped);
  const auto stopped = list_channels(directory_.path())->at(0);
  EXPECT_THAT(stopped.notes(), testing::ElementsAre(testing::HasSubstr(
                                   fmt::format("({}) is stopped (SIGSTOP", child.pid()))));
  EXPECT_EQ(stopped.consumers[0].held.size(), 1u);
  const auto later = list_channels(directory_.path())->at(0);
  EXPECT_GT(later.consumers[0].idle, stopped.consumers[0].idle) << "shown by age";
  child.end(SIGKILL);
  const Deadline end = soon();
  while (!list_channels(directory_.path())->at(0).consumers.empty()) ASSERT_FALSE(end.passed());
}

TEST_F(Processes, AStoppedProducerIsListedWithoutItsAnswer) {
  Child child([this](const Child& self) {
    auto out = make_producer("frames", options_);
    self.report();
    Child::hold();
  });
  child.await_report();
  auto other = make_producer("other", options_);
  child.stop();
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_FALSE(listed->at(0).answered);
  EXPECT_EQ(listed->at(0).producer_pid, child.pid());
  EXPECT_EQ(listed->at(0).producer_state, ProcessState::stopped);
  EXPECT_GE(listed->at(0).age.count(), 0);
  EXPECT_THAT(listed->at(0).notes(),
              testing::ElementsAre(testing::HasSubstr("is stopped (SIGSTOP")));
  EXPECT_TRUE(listed->at(1).answered) << "the others do not wait for it";
}

TEST_F(Processes, HaveAState) {
  EXPECT_EQ(process_state(::getpid()), ProcessState::running);
  EXPECT_EQ(process_state(0), ProcessState::unknown);
  Child child([](const Child& self) {
    EXPECT_EQ(::prctl(PR_SET_NAME, "a) T (b"), 0);  // as hard to read as it gets
    self.report();
    Child::hold();
  });
  child.await_report();
  const pid_t pid = child.pid();
  EXPECT_EQ(process_state(pid), ProcessState::running);
  child.stop();
  EXPECT_EQ(process_state(pid), ProcessState::stopped);
  ::kill(pid, SIGKILL);
  siginfo_t info{};
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process_state(pid), ProcessState::zombie);
  child.wait();
  EXPECT_EQ(process_state(pid), ProcessState::gone);
}

TEST_F(Processes, AForkedCopyIsDroppedWithoutHarm) {
  auto out = make_producer("frames", options_);
  ASSERT_TRUE(out);
  auto in = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(in);
  ASSERT_TRUE(out->send(pattern(kMiB, 1), soon()));
  auto held = in->receive(soon());
  ASSERT_TRUE(held);
  Child child([&](const Child&) {
    held->release();
    {
      const Consumer dropped = std::move(*in);
    }
    {
      const Producer dropped = std::move(*out);
    }
    ::_exit(0);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(directory_.is_empty()) << "the name is still the parent's";
  EXPECT_TRUE(same(held->bytes(), pattern(kMiB, 1)));
  ASSERT_TRUE(out->send(pattern(kMiB, 2), soon()));
  EXPECT_TRUE(same(in->receive(soon())->bytes(), pattern(kMiB, 2)));
  EXPECT_TRUE(same(held->bytes(), pattern(kMiB, 1))) << "its slot was not given back";
}

/// While it lives this process can open nothing.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{256, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int more = ::dup(0); more >= 0; more = ::dup(0)) taken_.emplace_back(more);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<Fd> taken_;
};

// The copy keeps the listening socket open, and nobody will ever accept from it.
TEST_F(Processes, TheNameOfAKilledProducerIsFreeThoughAForkedCopyLives) {
  std::array<int, 2> leash{};
  ASSERT_EQ(::pipe(leash.data()), 0);
  Child child([&](const Child& self) {
    ::close(leash[1]);
    const auto out = make_producer("frames", options_);
    char byte = 0;
    if (::fork() == 0) ::_exit(::read(leash[0], &byte, 1) == 0 ? 0 : 1);  // until we let go
    self.report();
    Child::hold();
  });
  child.await_report();
  child.end(SIGKILL);
  const auto found = find_producer(directory_.path(), "frames", -1, Deadline::now());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::timed_out);
  const auto out = make_producer("frames", options_);
  EXPECT_TRUE(out) << out.error().message;
  for (const int end : leash) ::close(end);
}

TEST_F(Processes, AConsumerOutOfDescriptorsSaysSoAndBlamesNobody) {
  auto out = make_producer("frames", options_);
  auto in = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(out && in);
  ASSERT_TRUE(out->send(pattern(kMiB, 1), soon()));
  const auto message = [&] {
    const NoDescriptors none;
    return in->receive(soon());
  }();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Code::system) << message.error().message;
  EXPECT_THAT(to_string(message.error()), testing::HasSubstr("ulimit -n"));
  EXPECT_THAT(message.error().message, testing::HasSubstr("'frames'"));
  EXPECT_EQ(in->receive(soon()).error().message, message.error().message) << "the reason stays";
}

/// Waits, without sleeping itself, until the other threads of this process went to sleep `times`.
bool others_slept(long times) {
  const auto sleeps = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  const Deadline deadline = soon();
  const long before = sleeps();
  while (sleeps() < before + times)
    if (deadline.passed()) return false;
  return true;
}

TEST_F(Processes, AProducerOutOfDescriptorsLetsConsumersInLater) {
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  Child child([&](const Child& self) {
    auto out = make_producer("frames", options_);
    bool good = out.has_value();
    // UBSan opens a pipe where a thread meets a class for the first time: not below, please.
    while (!test::others_sleep()) ::sched_yield();
    {
      const NoDescriptors none;
      self.report();
      char byte = 0;
      good = good && ::read(go[0], &byte, 1) == 1 && others_slept(3);
    }
    good = good && out->send(pattern(1000, 1), soon()) && out->close(soon());
    ::_exit(good ? 0 : 1);
  });
  child.await_report();
  // It is in the queue of a producer that cannot accept anyone.
  const auto early = find_producer(directory_.path(), "frames", -1, soon());
  ASSERT_TRUE(early);
  const auto in_time = wait_readable(early->get(), Deadline::now());
  EXPECT_TRUE(in_time && !*in_time) << "nobody can have answered yet";
  EXPECT_EQ(::write(go[1], "x", 1), 1);
  auto in = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(in) << in.error().message;
  EXPECT_TRUE(same(in->receive(soon())->bytes(), pattern(1000, 1)));
  EXPECT_EQ(in->receive(soon()).error().code, Code::closed);
  EXPECT_EQ(child.wait(), 0);
  for (const int end : go) ::close(end);
}

}  // namespace
}  // namespace gantry
