#include <gmock/gmock.h>

#include <thread>

#include "core/base/test_effort.hpp"
#include "core/base/wait.hpp"
#include "core/channel/inbox/inbox.hpp"
#include "core/channel/producer/producer.hpp"
#include "core/channel/queue/test_queue.hpp"

// Acknowledgements wake nobody for whom they change nothing, and nobody waits for one that woke
// nobody: I12 of Publisher, I4 of Inbox::Impl, I3 and I4 of WorkQueue::Impl. Method: each thing
// that depends on an acknowledgement is waited for, many times, while it lies in the ring of a
// member. Each was seen to fail, by its deadline, with its part of WorkQueue::Impl::needs_all()
// left out, and the first with hear() not looking at what lies there.
namespace gantry {
namespace {

using test::pattern;
using test::soon;

const unsigned kRounds = 200u / kTestStride;

class Quiet : public test::Queues {
 protected:
  /// A worker that holds `items` small items.
  std::vector<WorkItem> get(WorkMember& worker, std::size_t items) {
    std::vector<WorkItem> got;
    while (got.size() < items) {
      auto item = worker.get(soon());
      EXPECT_TRUE(item) << to_string(item.error());
      if (!item) break;
      got.push_back(std::move(*item));
    }
    return got;
  }
  static void put(WorkMember& putter, std::size_t items, Bytes bytes = 64) {
    for (std::size_t i = 0; i < items; ++i) ASSERT_TRUE(putter.put(pattern(bytes, i), soon()));
  }
};

TEST_F(Quiet, AMessageRingsOnlyAnInboxThatHearsAll) {
  InboxOptions options;
  options.channel.directory = directory_.path();
  const auto inbox = *Inbox::Impl::make("in", options);
  ProducerOptions sending;
  sending.directory = directory_.path();
  sending.slots = 8;
  const auto producer = *Producer::Impl::make("in", sending, std::make_shared<test::PlainEngine>(),
                                              Producer::Impl::Reach::calls);
  ASSERT_TRUE(producer->connector().wait_for_inbox(soon()));
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  const auto send = [&](Urgency urgency) {
    ASSERT_TRUE(producer->send_uncounted({.deadline = soon(), .correlation = ++sent}, urgency));
  };
  const auto is_rung = [&] { return is_readable(inbox->event_descriptor()); };
  const auto receive_all = [&] {
    for (;;) {
      const auto got = inbox->receive(Deadline::now());
      if (!got) {
        EXPECT_EQ(got.error().code, Code::timed_out);
        return;
      }
      EXPECT_EQ(got->message.info().correlation, ++received);
    }
  };
  while (inbox->senders().empty()) receive_all();

  EXPECT_FALSE(inbox->hear(Hears::urgent));
  send(Urgency::quiet);
  EXPECT_FALSE(is_rung());
  EXPECT_TRUE(inbox->hear(Hears::all));
  receive_all();
  EXPECT_EQ(received, 1U);
  send(Urgency::quiet);
  EXPECT_TRUE(is_rung());
  receive_all();

  EXPECT_FALSE(inbox->hear(Hears::urgent));
  send(Urgency::quiet);
  EXPECT_FALSE(is_rung());
  send(Urgency::urgent);
  EXPECT_TRUE(is_rung());
  receive_all();
  EXPECT_EQ(received, 4U);

  for (int i = 0; i < 4; ++i) send(Urgency::quiet);  // half of the ring
  EXPECT_FALSE(is_rung());
  send(Urgency::quiet);
  EXPECT_TRUE(is_rung());
  receive_all();
  EXPECT_EQ(received, 9U);
}

TEST_F(Quiet, WhoWaitsUntilAllIsDoneHearsOfIt) {
  WorkQueue queue = open();
  WorkMember putter = join(), worker = join(Acknowledge::by_hand);
  for (unsigned round = 0; round < kRounds; ++round) {
    put(putter, 2);
    auto items = get(worker, 2);
    ASSERT_TRUE(items[0].done());
    std::thread waiting([&] {
      const auto waited = queue.wait_until_done(soon());
      EXPECT_TRUE(waited) << to_string(waited.error());
    });
    if (round % 2 == 0) std::this_thread::yield();
    ASSERT_TRUE(items[1].done());
    waiting.join();
  }
}

// What a member puts behind its question is handed out when the queue knows of the question.
TEST_F(Quiet, AMemberThatWaitsUntilAllIsDoneHearsOfIt) {
  WorkQueue queue = open();
  WorkMember putter = join(), worker = join(Acknowledge::by_hand);
  for (unsigned round = 0; round < kRounds; ++round) {
    put(putter, 1);
    auto items = get(worker, 1);
    ASSERT_EQ(putter.wait_until_done(Deadline::now()).error().code, Code::timed_out);
    put(putter, 1);
    ASSERT_TRUE(get(worker, 1)[0].done());
    ASSERT_TRUE(items[0].done());
    ASSERT_TRUE(putter.wait_until_done(soon()));
  }
}

// Also beside so many members that a look does not go through all of them.
TEST_F(Quiet, ReportsCountIt) {
  for (const std::size_t others : {0, 70}) {
    WorkQueue queue = open({.members = 80});
    WorkMember putter = join(), worker = join(Acknowledge::by_hand);
    std::vector<WorkMember> idle;
    while (idle.size() < others) put(idle.emplace_back(join()), 1);
    for (std::size_t i = 0; i < others; ++i) ASSERT_TRUE(get(worker, 1)[0].done());
    for (unsigned round = 1; round <= kRounds; ++round) {
      put(putter, 1);
      auto items = get(worker, 1);
      ASSERT_TRUE(items[0].done());
      const Result<WorkQueueReport> report =
          round % 2 == 0 ? putter.report(soon()) : Result<WorkQueueReport>(queue.report());
      ASSERT_TRUE(report);
      ASSERT_EQ(report->in_hand, 0U) << round;
      ASSERT_EQ(report->acknowledged, others + round);
    }
  }
}

TEST_F(Quiet, AFinishedQueueEnds) {
  for (unsigned round = 0; round < kRounds / 4 + 1; ++round) {
    WorkQueue queue = open();
    WorkMember putter = join(), worker = join(Acknowledge::by_hand);
    put(putter, 2);
    auto items = get(worker, 2);
    ASSERT_TRUE(items[0].done());
    std::thread waiting([&] { EXPECT_EQ(get_code(putter, soon()), Code::closed); });
    queue.finish();
    if (round % 2 == 0) std::this_thread::yield();
    ASSERT_TRUE(items[1].done());
    waiting.join();
  }
}

// The item is too large to be copied, or there are as many copies as may be.
TEST_F(Quiet, APuttersSlotComesBack) {
  for (const std::size_t most_copied : {std::size_t{65'536}, std::size_t{0}, std::size_t{1}}) {
    WorkQueue queue = open({.most_copied = most_copied});
    WorkMember putter = join(Acknowledge::on_get, 1), worker = join(Acknowledge::by_hand);
    for (unsigned round = 0; round < kRounds; ++round) {
      put(putter, 1, most_copied > 1 ? 100'000 : 64);
      auto items = get(worker, 1);
      ASSERT_TRUE(items[0].done());
    }
  }
}

TEST_F(Quiet, ThisProcessMayPutAgain) {
  WorkQueue queue = open({.most_copied = 1});
  WorkMember worker = join(Acknowledge::by_hand);
  for (unsigned round = 0; round < kRounds; ++round) {
    const auto until = soon();
    while (!queue.put_here(pattern(64, round)).value()) ASSERT_FALSE(until.passed());
    auto items = get(worker, 1);
    ASSERT_TRUE(items[0].done());
  }
}

// It has room for two of its messages.
TEST_F(Quiet, AMemberWithLittleRoomGoesOn) {
  WorkQueue queue = open();
  WorkMember putter = join(), worker = join(Acknowledge::by_hand, 2);
  for (unsigned round = 0; round < kRounds / 8 + 1; ++round) {
    put(putter, 2);
    auto items = get(worker, 2);
    for (WorkItem& item : items) ASSERT_TRUE(item.done());
  }
  EXPECT_EQ(queue.report().in_hand, 0U);
}

// What lies in the ring of a member that goes is taken in before it has gone.
TEST_F(Quiet, AMemberThatLeavesHasAcknowledged) {
  WorkQueue queue = open();
  WorkMember putter = join(), stays = join();
  for (unsigned round = 0; round < kRounds / 8 + 1; ++round) {
    put(putter, 2);
    std::optional<WorkMember> leaves = join(Acknowledge::by_hand);
    auto items = get(*leaves, 2);
    ASSERT_TRUE(items[0].done());
    leaves.reset();
    items.clear();
    const auto again = stays.get(soon());
    ASSERT_TRUE(again) << to_string(again.error());
    ASSERT_EQ(again->number(), 2 * round + 2);
  }
}

}  // namespace
}  // namespace gantry
