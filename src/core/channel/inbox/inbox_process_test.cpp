#include <gmock/gmock.h>
#include <sched.h>
#include <gantry/call.hpp>

#include <thread>

#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// Producers in processes of their own, some of them killed; and an inbox that is.
namespace gantry {
namespace {

using test::Child;
using test::consumer_options;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class InboxProcesses : public testing::Test {
 protected:
  InboxProcesses() {
    options_.channel = consumer_options(channel_);
    options_.on_departure = [this](const Departure& one) { departed_.push_back(one); };
  }
  [[nodiscard]] Result<Producer> connect() const {
    return Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), soon());
  }
  test::ScratchDirectory directory_;
  ProducerOptions channel_ = options_in(directory_);
  InboxOptions options_;
  std::vector<Departure> departed_;
};

TEST_F(InboxProcesses, AKilledProducerCostsItselfAlone) {
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint64_t i = 0; i < 4; ++i)
    children.push_back(std::make_unique<Child>([this, i](const Child& self) {
      auto out = connect();
      auto unfinished = out->loan(kMiB, soon());
      if (out->send(pattern(kMiB, i), {.deadline = soon(), .user = i})) self.report();
      Child::hold();
    }));
  auto inbox = Inbox::open("in", options_);
  ASSERT_TRUE(inbox) << inbox.error().message;
  for (const auto& child : children) child->await_report();
  const pid_t killed = children[1]->pid();
  children[1]->end(SIGKILL);
  std::optional<Message> of_the_killed;
  for (int i = 0; i < 4; ++i) {
    auto got = inbox->receive(soon());
    ASSERT_TRUE(got) << got.error().message;
    const std::uint64_t who = got->message.info().user;
    EXPECT_TRUE(same(got->message.bytes(), pattern(kMiB, who)));
    EXPECT_EQ(got->sender.pid, children[who]->pid() > 0 ? children[who]->pid() : killed);
    if (who == 1) of_the_killed = std::move(got->message);
  }
  while (departed_.empty())
    ASSERT_EQ(inbox->receive(Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(departed_.size(), 1u);
  EXPECT_EQ(departed_[0].sender.pid, killed);
  EXPECT_EQ(departed_[0].why.code, Code::peer_gone);
  EXPECT_EQ(inbox->senders().size(), 3u);
  EXPECT_TRUE(same(of_the_killed->bytes(), pattern(kMiB, 1))) << "what is held outlives it";
}

TEST_F(InboxProcesses, ASleepingInboxHearsOfADeath) {
  options_.channel.spin = std::chrono::nanoseconds(0);
  auto inbox = Inbox::open("in", options_);
  Child child([this](const Child& self) {
    auto out = connect();
    if (out) self.report();
    Child::hold();
  });
  child.await_report();
  std::thread killer([&] { child.end(SIGKILL); });
  while (departed_.empty()) {
    const auto nothing = inbox->receive(Deadline::after(std::chrono::milliseconds(20)));
    ASSERT_EQ(nothing.error().code, Code::timed_out);
  }
  killer.join();
  EXPECT_EQ(departed_[0].why.code, Code::peer_gone);
}

TEST_F(InboxProcesses, AKilledInboxIsSeenAndItsNameTakenAgain) {
  Child child([this](const Child& self) {
    auto inbox = Inbox::open("in", options_);
    self.report();
    const auto got = inbox->receive(soon());
    self.report();
    Child::hold();
  });
  child.await_report();
  auto out = connect();
  ASSERT_TRUE(out) << out.error().message;
  ASSERT_TRUE(out->send(pattern(kMiB, 1), soon()));
  child.await_report();
  child.end(SIGKILL);
  Result<void> sent;
  while (sent) sent = out->send(pattern(kMiB, 2), soon());
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  auto successor = Inbox::open("in", options_);
  ASSERT_TRUE(successor) << successor.error().message;
  ASSERT_TRUE(out->wait_for_consumer(soon()));
  ASSERT_TRUE(out->send(pattern(kMiB, 3), soon()));
  for (;;) {
    const auto got = successor->receive(soon());
    ASSERT_TRUE(got) << got.error().message;
    if (same(got->message.bytes(), pattern(kMiB, 3))) break;
  }
}

TEST_F(InboxProcesses, AKilledInboxLeavesNoSocketOnceItsProducerKnows) {
  Child child([this](const Child& self) {
    auto inbox = Inbox::open("in", options_);
    self.report();
    Child::hold();
  });
  child.await_report();
  auto out = connect();
  ASSERT_TRUE(out);
  child.end(SIGKILL);
  Result<void> sent;
  while (sent) sent = out->send(pattern(8, 2), soon());
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  for (const Deadline late = soon(); !directory_.is_empty() && !late.passed();) ::sched_yield();
  EXPECT_TRUE(directory_.is_empty()) << "its hang-up comes before its death";
}

TEST_F(InboxProcesses, AForkedCopyIsDroppedWithoutHarm) {
  auto inbox = Inbox::open("in", options_);
  auto out = connect();
  ASSERT_TRUE(inbox && out);
  ASSERT_TRUE(out->send(pattern(10, 1), soon()));
  ASSERT_TRUE(inbox->receive(soon()));
  Child child([&](const Child&) {
    {
      const Inbox dropped = std::move(*inbox);
    }
    {
      const Producer dropped = std::move(*out);
    }
    ::_exit(0);
  });
  EXPECT_EQ(child.wait(), 0);
  ASSERT_TRUE(out->send(pattern(10, 2), soon()));
  EXPECT_TRUE(same(inbox->receive(soon())->message.bytes(), pattern(10, 2)));
  EXPECT_TRUE(departed_.empty());
}

}  // namespace
}  // namespace gantry
