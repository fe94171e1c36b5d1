#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/test_effort.hpp"
#include "core/channel/queue/item_batch.hpp"
#include "core/channel/queue/test_queue.hpp"

// Several items in one message: whole, in order, shared among those who wait, and back if unseen.
namespace gantry {
namespace {

using test::pattern;
using test::same;
using test::soon;

class Batches : public test::Queues {
 protected:
  /// Puts pattern(sizes[i], i) as item i + 1, in one call.
  static void put_many(WorkMember& putter, std::span<const Bytes> sizes) {
    std::vector<std::vector<std::byte>> kept;
    std::vector<ConstByteSpan> items;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      items.push_back(kept.emplace_back(pattern(sizes[i], i)));
    const auto put = putter.put_many(items, soon());
    ASSERT_TRUE(put) << to_string(put.error());
    ASSERT_EQ(*put, sizes.size());
  }
  static std::vector<WorkItem> get_many(WorkMember& getter, std::size_t most) {
    auto items = getter.get_many(most, soon());
    EXPECT_TRUE(items) << to_string(items.error());
    return items ? std::move(*items) : std::vector<WorkItem>();
  }
  static std::vector<std::uint64_t> numbers_of(const std::vector<WorkItem>& items) {
    std::vector<std::uint64_t> numbers;
    for (const WorkItem& item : items) numbers.push_back(item.number());
    return numbers;
  }
  static void wait_for_waiting(const WorkQueue& queue, std::size_t items) {
    while (queue.report().waiting_items != items) std::this_thread::yield();
  }
};

// It gives up the request that is under way, of which the queue hears no more.
TEST_F(Batches, AFinishedQueueThatHasGoneIsClosedForWhoAsksForAnotherNumber) {
  std::optional<WorkQueue> queue(open());
  WorkMember gets = join(), withdraws = join();
  EXPECT_EQ(get_code(gets), Code::timed_out);
  EXPECT_EQ(get_code(withdraws), Code::timed_out);
  queue->finish();
  ASSERT_TRUE(queue->wait_until_done(soon()));
  queue.reset();
  EXPECT_EQ(gets.get_many(4, soon()).error().code, Code::closed);
  EXPECT_EQ(withdraws.withdraw(Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(get_code(withdraws, soon()), Code::closed);
}

TEST_F(Batches, EveryItemComesOnceWholeAndInOrder) {
  // As a batch, alone, beyond the bytes of a message, beyond its items.
  std::vector<Bytes> sizes = {0, 1, 64, 4096, 4097, 100'000, 5, 3'000'000, 0, 0, 7};
  sizes.insert(sizes.end(), 40, 4096);
  sizes.insert(sizes.end(), 700, 3);
  for (const std::size_t most_copied : {std::size_t{65'536}, std::size_t{0}, std::size_t{9}}) {
    WorkQueue queue = open({.most_copied = most_copied});
    WorkMember putter = join(Acknowledge::on_get, 64), getter = join(Acknowledge::on_get, 64);
    std::thread putting([&] { put_many(putter, sizes); });
    std::uint64_t next = 1;
    while (next <= sizes.size())
      for (const WorkItem& item : get_many(getter, 1000)) {
        ASSERT_EQ(item.number(), next++);
        ASSERT_EQ(item.segments(), 1U);
        ASSERT_TRUE(is_whole(item, sizes)) << item.number();
        ASSERT_EQ(item.tries(), 1U);
      }
    putting.join();
    EXPECT_EQ(getter.get_many(5, Deadline::now()).error().code, Code::timed_out);
    ASSERT_TRUE(queue.wait_until_done(soon()));
    EXPECT_EQ(queue.report().acknowledged, sizes.size());
  }
}

TEST_F(Batches, AreOfTheSizeThatWasAskedFor) {
  WorkQueue queue = open();
  WorkMember member = join();
  put_many(member, std::vector<Bytes>(300, 10));
  wait_for_waiting(queue, 300);
  EXPECT_EQ(get_many(member, 5).size(), 5U);
  EXPECT_EQ(member.get(soon())->number(), 6U);
  EXPECT_EQ(get_many(member, 1).size(), 1U);
  EXPECT_EQ(get_many(member, 1000).size(), WorkMember::kMostBatched);
  EXPECT_EQ(get_many(member, 1000).size(), 300 - 7 - WorkMember::kMostBatched);
  EXPECT_EQ(member.get_many(0, soon()).error().code, Code::invalid_argument);
}

// A get that timed out asked for five; the next one is for one, and the one after for three.
TEST_F(Batches, AnEarlierGetDoesNotLimitALaterOne) {
  WorkQueue queue = open({.most_tries = 1});
  WorkMember putter = join(), getter = join(Acknowledge::by_hand);
  for (const std::size_t first : {std::size_t{5}, std::size_t{1}}) {
    const std::size_t next = first == 5 ? 1 : 5;
    EXPECT_EQ(getter.get_many(first, Deadline::now()).error().code, Code::timed_out);
    while (queue.report().waiting_workers != 1) std::this_thread::yield();
    put_many(putter, std::vector<Bytes>(5, 10));  // some are handed out for that request
    std::size_t seen = 0;
    while (seen < 5) {
      auto items = get_many(getter, next);
      ASSERT_LE(items.size(), next);
      seen += items.size();
      for (WorkItem& item : items) {
        EXPECT_EQ(item.tries(), 1U);
        ASSERT_TRUE(item.done());
      }
    }
    ASSERT_TRUE(queue.wait_until_done(soon()));
  }
  EXPECT_EQ(queue.report().acknowledged, 10U);
  EXPECT_EQ(queue.report().dropped, 0U);
}

// What was handed out for it comes back before the items behind it go to the next get().
TEST_F(Batches, WhatAnEarlierGetWasHandedComesFirst) {
  WorkQueue queue = open();
  WorkMember putter = join(), getter = join();
  const std::vector<Bytes> five(5, 10);
  const auto most = static_cast<std::uint64_t>(2000 / kTestStride);
  for (std::uint64_t first = 1; first <= most; first += 10) {
    EXPECT_EQ(getter.get_many(5, Deadline::now()).error().code, Code::timed_out);
    while (queue.report().waiting_workers != 1) std::this_thread::yield();
    put_many(putter, five);
    while (queue.report().in_hand != 5) std::this_thread::yield();
    put_many(putter, five);
    while (queue.report().waiting_items != 5) std::this_thread::yield();
    for (std::uint64_t number = first; number < first + 10; ++number)
      ASSERT_EQ(getter.get(soon())->number(), number);
  }
}

// With one try, an item that nobody has seen is not lost: its member leaves with the answer unread.
TEST_F(Batches, OnlyItemsThatWereSeenHaveBeenTried) {
  WorkQueue queue = open({.most_tries = 1});
  WorkMember putter = join();
  {
    WorkMember leaves = join(Acknowledge::by_hand);
    EXPECT_EQ(leaves.get_many(8, Deadline::now()).error().code, Code::timed_out);
    while (queue.report().waiting_workers != 1) std::this_thread::yield();
    put_many(putter, std::vector<Bytes>(8, 10));
    while (queue.report().in_hand != 8) std::this_thread::yield();
  }
  WorkMember stays = join(Acknowledge::by_hand);
  auto items = get_many(stays, 8);
  ASSERT_EQ(items.size(), 8U);
  for (const WorkItem& item : items) EXPECT_EQ(item.tries(), 1U);
  ASSERT_TRUE(items[0].done());
  items.clear();  // seen, and not done
  queue.finish();
  ASSERT_TRUE(queue.wait_until_done(soon()));
  EXPECT_EQ(queue.report().acknowledged, 1U);
  EXPECT_EQ(queue.report().dropped, 7U);
}

// The same of an item that get_many() is given alone, since it is large, or no other one waits.
TEST_F(Batches, AnItemThatComesAloneIsNoTryBeforeItIsSeen) {
  for (const Bytes size : {Bytes{10}, Bytes{5000}}) {
    WorkQueue queue = open({.most_tries = 1});
    WorkMember putter = join();
    {
      WorkMember leaves = join(Acknowledge::by_hand);
      EXPECT_EQ(leaves.get_many(8, Deadline::now()).error().code, Code::timed_out);
      while (queue.report().waiting_workers != 1) std::this_thread::yield();
      put_many(putter, std::vector<Bytes>{size});
      while (queue.report().in_hand != 1) std::this_thread::yield();
    }
    WorkMember stays = join(Acknowledge::by_hand);
    auto items = get_many(stays, 8);
    ASSERT_EQ(items.size(), 1U);
    EXPECT_EQ(items[0].tries(), 1U);
    items.clear();  // seen, and not done
    queue.finish();
    ASSERT_TRUE(queue.wait_until_done(soon()));
    EXPECT_EQ(queue.report().dropped, 1U);
  }
}

TEST_F(Batches, WhatAGetterHadNotDoneGoesToAnother) {
  WorkQueue queue = open();
  WorkMember putter = join();
  const std::vector<Bytes> sizes(10, 100);
  put_many(putter, sizes);
  wait_for_waiting(queue, 10);
  {
    WorkMember leaves = join(Acknowledge::by_hand);
    auto items = get_many(leaves, 10);
    ASSERT_EQ(items.size(), 10U);
    for (std::size_t i = 0; i < 4; ++i) ASSERT_TRUE(items[i].done());
  }
  WorkMember stays = join(Acknowledge::by_hand);
  auto items = get_many(stays, 10);
  EXPECT_THAT(numbers_of(items), testing::ElementsAre(5, 6, 7, 8, 9, 10));
  for (WorkItem& item : items) {
    EXPECT_EQ(item.tries(), 2U);
    EXPECT_TRUE(is_whole(item, sizes));
    EXPECT_TRUE(item.done());
  }
  ASSERT_TRUE(queue.wait_until_done(soon()));
}

// Items outlive their member, their batch's message and each other.
TEST_F(Batches, DoNotKeepSlots) {
  WorkQueue queue = open({.replies = {.slots = 2}});
  WorkMember putter = join();
  std::vector<WorkItem> kept;
  const std::vector<Bytes> sizes(20, 3000);
  {
    WorkMember getter = join();
    put_many(putter, sizes);
    wait_for_waiting(queue, 20);
    while (kept.size() < 20)
      for (WorkItem& item : get_many(getter, 2)) kept.push_back(std::move(item));
  }
  for (const WorkItem& item : kept) EXPECT_TRUE(is_whole(item, sizes));
}

// Three wait in line when twelve items come at once.
TEST_F(Batches, AreSharedAmongThoseWhoWait) {
  WorkQueue queue = open();
  WorkMember putter = join();
  std::vector<WorkMember> getters;
  for (std::size_t i = 1; i <= 3; ++i) {
    getters.push_back(join());
    EXPECT_EQ(getters.back().get_many(256, Deadline::now()).error().code, Code::timed_out);
    while (queue.report().waiting_workers != i) std::this_thread::yield();
  }
  put_many(putter, std::vector<Bytes>(12, 10));
  for (WorkMember& getter : getters) EXPECT_EQ(get_many(getter, 256).size(), 4U);
}

TEST_F(Batches, AreWithdrawnWhole) {
  WorkQueue queue = open({.most_tries = 1});
  WorkMember putter = join(), getter = join();
  EXPECT_EQ(getter.get_many(4, Deadline::now()).error().code, Code::timed_out);
  while (queue.report().waiting_workers != 1) std::this_thread::yield();
  put_many(putter, std::vector<Bytes>(4, 10));
  while (queue.report().in_hand != 4) std::this_thread::yield();
  const auto items = getter.withdraw_many(soon());
  ASSERT_TRUE(items) << to_string(items.error());
  EXPECT_EQ(items->size(), 4U);
  EXPECT_EQ(getter.get_many(4, Deadline::now()).error().code, Code::timed_out);
  while (queue.report().waiting_workers != 1) std::this_thread::yield();
  put_many(putter, std::vector<Bytes>(4, 10));
  while (queue.report().in_hand != 4) std::this_thread::yield();
  EXPECT_EQ(getter.withdraw(soon()).error().code, Code::timed_out);  // it is for one
  EXPECT_EQ(get_many(getter, 4).size(), 4U);
  ASSERT_TRUE(queue.wait_until_done(soon()));
  EXPECT_EQ(queue.report().acknowledged, 8U);
}

// put_many() that ends in the midst says how far it came, and the next call why.
TEST_F(Batches, SayHowManyWerePut) {
  std::optional<WorkQueue> queue = open({.most_copied = 0});
  WorkMember putter = join(Acknowledge::on_get, 4);
  const std::vector<std::byte> bytes(5000);  // each takes a slot
  const std::vector<ConstByteSpan> items(10, bytes);
  EXPECT_EQ(putter.put_many(items, Deadline::after(std::chrono::milliseconds(1))).value(), 4U);
  EXPECT_EQ(putter.put_many(items, Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(putter.put_many({}, Deadline::now()).value(), 0U);
  queue.reset();
  auto put = putter.put_many(items, soon());
  while (put) put = putter.put_many(items, soon());  // what it has not heard of yet
  EXPECT_EQ(put.error().code, Code::peer_gone);
}

// As put() refuses it; what is before it in the list was put.
TEST_F(Batches, AnItemThatCannotBeReadIsRefused) {
  WorkQueue queue = open();
  void* const closed = ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  const auto good = pattern(100, 1);
  const ConstByteSpan nowhere(static_cast<std::byte*>(nullptr), 10);
  const std::array<ConstByteSpan, 2> all_bad{ConstByteSpan(static_cast<std::byte*>(closed), 100),
                                             ConstByteSpan(static_cast<std::byte*>(closed) + 1, 9)};
  for (const ConstByteSpan bad : {all_bad[0], all_bad[1], nowhere})
    EXPECT_EQ(queue.put_here(bad).error().code, Code::invalid_argument);
  EXPECT_TRUE(queue.put_here(good).value());
  EXPECT_TRUE(queue.take_here());
  WorkMember member = join();
  for (const ConstByteSpan bad : all_bad) {
    EXPECT_EQ(member.put_many(std::array<ConstByteSpan, 4>{good, good, bad, good}, soon()).value(),
              2U);
    EXPECT_EQ(member.put_many(std::array<ConstByteSpan, 2>{bad, good}, soon()).error().code,
              Code::invalid_argument);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(same(member.get(soon())->bytes(), good));
  }
  EXPECT_EQ(get_code(member), Code::timed_out);
  ::munmap(closed, 8192);
}

// ---- items of the queue's own process

TEST_F(Batches, ItemsOfThisProcessNeedNoMember) {
  WorkQueue queue = open({.most_copied = 3});
  WorkMember member = join();
  EXPECT_EQ(queue.take_here().error().code, Code::timed_out);
  for (std::uint8_t i = 0; i < 3; ++i)
    EXPECT_TRUE(queue.put_here(pattern(Bytes{40} * i, i)).value());
  EXPECT_FALSE(queue.put_here(pattern(40, 3)).value());  // it would not be copied
  EXPECT_EQ(member.get(soon())->bytes().size(), 0U);
  for (std::uint8_t i = 1; i < 3; ++i) {
    const auto item = queue.take_here();
    ASSERT_TRUE(item) << to_string(item.error());
    EXPECT_EQ(item->number(), i + 1U);
    EXPECT_TRUE(same(item->bytes(), pattern(Bytes{40} * i, i)));
  }
  EXPECT_FALSE(queue.put_here(pattern(4097, 1)).value());
  ASSERT_TRUE(member.put(pattern(100'000, 1), soon()));
  ASSERT_TRUE(member.report(soon()));                          // it has been taken in
  EXPECT_EQ(queue.take_here().error().code, Code::timed_out);  // a member has to get it
  EXPECT_EQ(member.get(soon())->bytes().size(), 100'000U);
  ASSERT_TRUE(queue.wait_until_done(soon()));
  queue.finish();
  EXPECT_EQ(member.get(soon()).error().code, Code::closed);
  const auto dropped = queue.put_here(pattern(1, 1));
  EXPECT_TRUE(!dropped || *dropped);
  EXPECT_EQ(queue.report().acknowledged, 4U);
}

TEST_F(Batches, SeveralOfThisProcessGoInOneTurn) {
  WorkQueue queue = open({.most_copied = 400});
  const std::vector<std::byte> small(7), large(4097);
  std::vector<ConstByteSpan> items(300, small);
  items.insert(items.end(), {large, small});
  EXPECT_EQ(queue.put_here(items).value(), 300U);  // the large one needs a member
  EXPECT_EQ(queue.put_here(std::span(items).subspan(300)).value(), 0U);
  EXPECT_EQ(queue.put_here(std::span(items).first(0)).value(), 0U);
  EXPECT_EQ(queue.put_here(items).value(), 100U);  // others would not be copied
  WorkMember member = join();
  EXPECT_EQ(get_many(member, 1000).size(), WorkMember::kMostBatched);
  const auto rest = queue.take_many_here(1000);
  ASSERT_TRUE(rest) << to_string(rest.error());
  EXPECT_EQ(rest->size(), 400 - WorkMember::kMostBatched);
  EXPECT_EQ(rest->front().number(), WorkMember::kMostBatched + 1);
  EXPECT_EQ(rest->back().bytes().size(), 7U);
  EXPECT_EQ(queue.take_many_here(0).error().code, Code::invalid_argument);
  ASSERT_TRUE(queue.wait_until_done(soon()));
}

// What is taken here is acknowledged, and keeps no slot of its putter's.
TEST_F(Batches, WhatIsTakenHereKeepsNoSlot) {
  WorkQueue queue = open({.most_copied = 0});
  WorkMember putter = join(Acknowledge::on_get, 1);
  std::vector<WorkItem> taken;
  for (unsigned round = 1; round <= 10; ++round) {
    put_many(putter, std::vector<Bytes>(3, 100));
    while (taken.size() < 3 * round) {
      auto items = queue.take_many_here(2, soon());
      ASSERT_TRUE(items) << to_string(items.error());
      std::ranges::move(*items, std::back_inserter(taken));
    }
  }
  for (std::size_t i = 0; i < taken.size(); ++i)
    EXPECT_TRUE(same(taken[i].bytes(), pattern(100, i % 3))) << i;
}

// A worker that waits is served by the thread that puts, and questions by the dispatcher, whichever
// thread has taken them in.
TEST_F(Batches, ThisProcessAndMembersShareTheQueue) {
  const unsigned kItems = 3000u / kTestStride;
  WorkQueue queue = open();
  std::atomic<unsigned> got = 0;
  std::vector<std::thread> threads;
  for (int who = 0; who < 2; ++who) {
    threads.emplace_back([&] {
      WorkMember member = join();
      for (;;) {
        auto item = member.get(soon());
        if (!item) {
          EXPECT_EQ(item.error().code, Code::closed) << to_string(item.error());
          return;
        }
        ++got;
      }
    });
    threads.emplace_back([&] {
      WorkMember member = join();
      for (unsigned i = 0; i < kItems; ++i) {
        ASSERT_TRUE(member.put(pattern(64, i), soon()));
        if (i % 64 == 0) {
          ASSERT_TRUE(member.report(soon()));
        }
      }
    });
    threads.emplace_back([&] {
      for (unsigned i = 0; i < kItems; ++i) {
        ASSERT_TRUE(queue.put_here(pattern(64, i)).value());
        if (queue.take_here()) ++got;
      }
    });
  }
  while (got < 4 * kItems) std::this_thread::yield();
  ASSERT_TRUE(queue.wait_until_done(soon()));
  queue.finish();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, 4 * kItems);
  EXPECT_EQ(queue.report().acknowledged, 4 * kItems);
}

// By a message, and by another thread of this process.
TEST_F(Batches, AThreadOfThisProcessWaitsForTheNextItem) {
  WorkQueue queue = open();
  WorkMember member = join();
  for (std::uint8_t i = 1; i <= 100; ++i) {
    std::thread putter([&] {
      while (queue.report().waiting_workers == 0) std::this_thread::yield();
      const auto bytes = pattern(Bytes{40} * i, i);
      EXPECT_TRUE(i % 2 == 0 ? member.put(bytes, soon()).has_value()
                             : queue.put_here(bytes).value());
    });
    const auto item = queue.take_here(soon());
    putter.join();
    ASSERT_TRUE(item) << to_string(item.error());
    EXPECT_EQ(item->number(), i);
    EXPECT_EQ(item->tries(), 1U);
    EXPECT_TRUE(same(item->bytes(), pattern(Bytes{40} * i, i)));
  }
  EXPECT_EQ(queue.report().waiting_workers, 0U);
  EXPECT_EQ(queue.report().acknowledged, 100U);
}

TEST_F(Batches, AThreadThatWaitsIsBeforeMembersThatComeLater) {
  WorkQueue queue = open();
  WorkMember putter = join();
  std::optional<Result<WorkItem>> got;
  std::thread waiter([&] { got = queue.take_here(soon()); });
  while (queue.report().waiting_workers != 1) std::this_thread::yield();
  WorkMember later = join();
  EXPECT_EQ(get_code(later), Code::timed_out);                       // it stands in line
  EXPECT_EQ(queue.take_here(soon()).error().code, Code::timed_out);  // another one waits
  while (queue.report().waiting_workers != 2) std::this_thread::yield();
  ASSERT_TRUE(putter.put(pattern(64, 1), soon()));
  ASSERT_TRUE(putter.put(pattern(64, 2), soon()));
  EXPECT_TRUE(same(later.get(soon())->bytes(), pattern(64, 2)));
  waiter.join();
  ASSERT_TRUE(*got);
  EXPECT_TRUE(same((*got)->bytes(), pattern(64, 1)));
}

// It waits no longer than it has to: a member has to get that, or nothing will come.
TEST_F(Batches, AThreadThatWaitsInVainIsTold) {
  WorkQueue queue = open();
  WorkMember member = join();
  EXPECT_EQ(queue.take_here(Deadline::after(std::chrono::milliseconds(1))).error().code,
            Code::timed_out);
  EXPECT_EQ(queue.report().waiting_workers, 0U);
  const auto wait_until = [&](auto act, int interrupt) {
    Code code{};
    std::thread waiter([&] { code = queue.take_here(Deadline::never(), interrupt).error().code; });
    while (queue.report().waiting_workers == 0) std::this_thread::yield();
    act();
    waiter.join();
    EXPECT_EQ(queue.report().waiting_workers, 0U);
    return code;
  };
  const Fd event = *make_event();
  EXPECT_EQ(wait_until([&] { ring(event.get()); }, event.get()), Code::interrupted);
  EXPECT_EQ(wait_until([&] { ASSERT_TRUE(member.put(pattern(100'000, 1), soon())); }, -1),
            Code::timed_out);
  EXPECT_EQ(member.get(soon())->bytes().size(), 100'000U);
  EXPECT_EQ(wait_until([&] { queue.finish(); }, -1), Code::timed_out);
  EXPECT_EQ(member.get(soon()).error().code, Code::closed);
}

// The waiting thread takes in what the dispatcher would: questions, and what a member had.
TEST_F(Batches, MembersAreServedWhileAThreadWaits) {
  WorkQueue queue = open();
  WorkMember putter = join();
  std::optional<WorkMember> holder = join(Acknowledge::by_hand);
  ASSERT_TRUE(putter.put(pattern(64, 1), soon()));
  auto held = holder->get(soon());
  ASSERT_TRUE(held);
  std::optional<Result<WorkItem>> got;
  std::thread waiter([&] { got = queue.take_here(soon()); });
  while (queue.report().waiting_workers == 0) std::this_thread::yield();
  EXPECT_EQ(putter.report(soon())->in_hand, 1U);
  ASSERT_TRUE(putter.reserve(soon()));
  holder.reset();
  waiter.join();
  ASSERT_TRUE(*got) << to_string(got->error());
  EXPECT_EQ((*got)->tries(), 2U);
  EXPECT_TRUE(same((*got)->bytes(), pattern(64, 1)));
}

// ---- what a peer may have written

struct Table {
  struct Entry {
    std::uint64_t number;
    std::uint32_t tries, bytes;
  };
  std::vector<Entry> entries;
  [[nodiscard]] ConstByteSpan bytes() const { return std::as_bytes(std::span(entries)); }
};

TEST(ItemBatches, ThatDoNotFitTheirBytesAreRefused) {
  const std::vector<std::byte> bytes(100);
  const Table good{{{1, 1, 60}, {2, 1, 40}}};
  const auto read = ItemBatch::read(bytes, good.bytes(), 2);
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)[1].bytes.data(), bytes.data() + 60);
  EXPECT_EQ((*read)[1].bytes.size(), 40U);
  EXPECT_FALSE(ItemBatch::read(bytes, good.bytes(), 1));
  EXPECT_FALSE(ItemBatch::read(bytes, good.bytes().first(31), 2));
  EXPECT_FALSE(ItemBatch::read(bytes, {}, 2));
  EXPECT_FALSE(ItemBatch::read(bytes, Table{{{1, 1, 60}, {2, 1, 41}}}.bytes(), 2));
  EXPECT_FALSE(ItemBatch::read(bytes, Table{{{1, 1, 60}, {2, 1, 39}}}.bytes(), 2));
  EXPECT_FALSE(ItemBatch::read(bytes, Table{{{1, 1, ~0U}, {2, 1, 101}}}.bytes(), 2));
  const std::vector<std::byte> large(WorkMember::kMostBatchedItem + 1);
  EXPECT_FALSE(ItemBatch::read(large, Table{{{1, 1, 4097}}}.bytes(), 2));
  const std::vector<std::byte> many(17 * WorkMember::kMostBatchedItem);
  EXPECT_FALSE(
      ItemBatch::read(many, Table{std::vector<Table::Entry>(17, {1, 1, 4096})}.bytes(), 99));
  EXPECT_FALSE(ItemBatch::read({}, Table{std::vector<Table::Entry>(257)}.bytes(), 1000));
}

}  // namespace
}  // namespace gantry
