#include <csignal>
#include <thread>

#include <unistd.h>

#include "core/channel/queue/test_queue.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/wire/step.hpp"

// Workers that are killed with items in hand: nothing is lost, nothing comes twice to be done.
namespace gantry {
namespace {

using test::Child;
using test::pattern;
using test::same;
using test::soon;

using WorkQueueProcesses = test::Queues;

TEST_F(WorkQueueProcesses, AKilledWorkersItemsGoToAnother) {
  constexpr std::uint64_t kItems = 12;
  WorkQueue queue = open();
  WorkMember putting = join(Acknowledge::on_get, 64);
  for (std::uint64_t i = 0; i < kItems; ++i)
    ASSERT_TRUE(putting.put(pattern(i % 2 == 0 ? 50 : 300'000, i), soon()));
  for (int kill = 0; kill < 4; ++kill) {
    Child worker([this, kill](const Child& self) {
      WorkMember member = join(Acknowledge::by_hand);
      std::vector<WorkItem> items;
      for (int i = 0; i <= kill; ++i) items.push_back(*member.get(soon()));
      self.report();
      Child::hold();
    });
    worker.await_report();
    worker.end(SIGKILL);
  }
  WorkMember stays = join(Acknowledge::by_hand);
  for (std::uint64_t i = 0; i < kItems; ++i) {
    auto item = stays.get(soon());
    ASSERT_TRUE(item) << to_string(item.error());
    const std::uint64_t which = item->number() - 1;
    EXPECT_TRUE(same(item->bytes(), pattern(which % 2 == 0 ? 50 : 300'000, which)));
    ASSERT_TRUE(item->done());
  }
  queue.finish();
  ASSERT_TRUE(queue.wait_until_done(soon()));
  EXPECT_EQ(queue.report().acknowledged, kItems);
}

// Killed in the midst of a batch, by hand after so many items: the rest goes to another, in order.
TEST_F(WorkQueueProcesses, TheRestOfAKilledWorkersBatchGoesToAnother) {
  constexpr std::size_t kItems = 100;
  WorkQueue queue = open();
  WorkMember putting = join(Acknowledge::on_get, 64);
  std::vector<std::vector<std::byte>> kept;
  std::vector<ConstByteSpan> items;
  for (std::size_t i = 0; i < kItems; ++i) items.push_back(kept.emplace_back(pattern(200 + i, i)));
  ASSERT_EQ(putting.put_many(items, soon()).value(), kItems);
  while (queue.report().waiting_items != kItems) std::this_thread::yield();
  constexpr std::size_t kBatch = 20, kDone = 7;
  for (int kill = 0; kill < 4; ++kill) {
    Child worker([&](const Child& self) {
      WorkMember member = join(Acknowledge::by_hand);
      auto batch = member.get_many(kBatch, soon());
      if (!batch || batch->size() != kBatch) return;  // without a word, which the parent misses
      for (std::size_t i = 0; i < kDone; ++i)
        if (!(*batch)[i].done()) return;
      self.report();
      Child::hold();
    });
    worker.await_report();
    worker.end(SIGKILL);
    while (queue.report().in_hand != 0) std::this_thread::yield();
  }
  WorkMember stays = join(Acknowledge::by_hand);
  for (std::uint64_t next = 4 * kDone + 1; next <= kItems;) {
    auto batch = stays.get_many(256, soon());
    ASSERT_TRUE(batch) << to_string(batch.error());
    for (WorkItem& item : *batch) {
      EXPECT_EQ(item.number(), next);
      EXPECT_TRUE(same(item.bytes(), pattern(200 + next - 1, next - 1)));
      ASSERT_TRUE(item.done());
      ++next;
    }
  }
  queue.finish();
  ASSERT_TRUE(queue.wait_until_done(soon()));
  EXPECT_EQ(queue.report().acknowledged, kItems);
  EXPECT_EQ(queue.report().dropped, 0U);
}

#ifdef GANTRY_STEPS
std::optional<Step> deadly;  // for this process

// Killed between the queue's answer and the user: with one try nothing is lost by that.
class KilledGetters : public WorkQueueProcesses, public testing::WithParamInterface<Step> {};

TEST_P(KilledGetters, LoseNothingThatTheyHadNotSeen) {
  for (const Acknowledge acknowledge : {Acknowledge::on_get, Acknowledge::by_hand}) {
    WorkQueue queue = open({.most_tries = 1});
    WorkMember putting = join();
    std::vector<std::byte> bytes(64);
    const std::vector<ConstByteSpan> items(30, bytes);
    ASSERT_EQ(putting.put_many(items, soon()).value(), items.size());
    while (queue.report().waiting_items != items.size()) std::this_thread::yield();
    Child worker([&](const Child& self) {
      WorkMember member = join(acknowledge);
      self.report();
      deadly = GetParam();
      static_cast<void>(member.get_many(30, soon()));
    });
    worker.await_report();
    worker.wait();
    while (queue.report().members != 1) std::this_thread::yield();
    while (queue.report().in_hand != 0) std::this_thread::yield();
    const bool was_told = GetParam() == Step::queue_batch_told;
    EXPECT_EQ(queue.report().waiting_items, was_told ? 0U : items.size());
    EXPECT_EQ(queue.report().acknowledged,
              was_told && acknowledge == Acknowledge::on_get ? items.size() : 0U);
    EXPECT_EQ(queue.report().dropped,
              was_told && acknowledge == Acknowledge::by_hand ? items.size() : 0U);
  }
}
INSTANTIATE_TEST_SUITE_P(All, KilledGetters,
                         testing::Values(Step::queue_batch_read, Step::queue_batch_told));
#endif

// Nothing is copied by the queue: what is handed out again lies where its putter wrote it, who may
// have left by then.
TEST_F(WorkQueueProcesses, ItemsOfEverySizeOutliveTheirHolders) {
  const std::array<Bytes, 5> sizes{64, 70'000, 300'000, 2'000'000, Bytes{20} << 20};
  WorkQueue queue = open({.most_copied = 0});
  std::optional<WorkMember> putter = join(Acknowledge::on_get, 16);
  put_all(*putter, sizes);
  for (std::size_t kill = 0; kill < 2 * sizes.size(); ++kill) {
    if (kill == sizes.size()) putter.reset();
    Child worker([&](const Child& self) {
      WorkMember member = join(Acknowledge::by_hand);
      std::vector<WorkItem> items;
      for (std::size_t i = 0; i <= kill % sizes.size(); ++i) {
        auto item = member.get(soon());
        if (!item || !is_whole(*item, sizes)) return;  // without a word, which the parent misses
        items.push_back(std::move(*item));
      }
      self.report();
      Child::hold();
    });
    worker.await_report();
    worker.end(SIGKILL);
  }
  WorkMember stays = join(Acknowledge::by_hand);
  expect_each_once(stays, sizes);
}

// A child's copies of a queue and its members go without waiting for what stayed with the parent.
TEST_F(WorkQueueProcesses, AChildFreesItsCopies) {
  std::optional<WorkQueue> queue = open();
  std::optional<WorkMember> member = join(Acknowledge::by_hand);
  ASSERT_TRUE(member->put(pattern(100, 1), soon()));
  std::optional<WorkItem> item = *member->get(soon());
  Child child([&](const Child& self) {
    EXPECT_FALSE(member->put(pattern(100, 2)));
    EXPECT_FALSE(member->get());
    EXPECT_FALSE(queue->wait_until_done());
    item.reset();
    member.reset();
    queue.reset();
    self.report();
    Child::hold();
  });
  child.await_report();
  child.end(SIGKILL);
  EXPECT_TRUE(same(item->bytes(), pattern(100, 1)));
  EXPECT_TRUE(item->done());
  EXPECT_TRUE(queue->wait_until_done(soon()));
}

}  // namespace

#ifdef GANTRY_STEPS
void reached_step(Step step) noexcept {
  if (step == deadly) ::kill(::getpid(), SIGKILL);
}
#endif

}  // namespace gantry
