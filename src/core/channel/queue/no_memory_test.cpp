#include "core/base/test_failing_heap.hpp"
#include "core/channel/queue/test_queue.hpp"

// The heap of a member's thread fails at its n-th use, once or from then on, for every n until none
// fails: no item is lost, tried or put twice.
namespace gantry {
namespace {

using test::pattern;
using test::soon;

class NoMemory : public test::Queues {
 protected:
  /// Calls `work(n, stays_empty)`, which returns true while the heap fails.
  template <class Work>
  static void at_every_failure(Work work) {
    for (const bool stays_empty : {false, true}) {
      long n = 0;
      while (work(n, stays_empty) && !HasFatalFailure()) ASSERT_LT(++n, 1000);
      EXPECT_GT(n, 1) << "the heap is used, and was made to fail";
    }
  }
};

// Its member lives on, unless its connection broke for want of heap: then another one joins.
TEST_F(NoMemory, AnAnswerThatCannotBeOpenedGoesBack) {
  const std::vector<std::byte> bytes = pattern(100, 1);
  for (const Acknowledge acknowledge : {Acknowledge::on_get, Acknowledge::by_hand}) {
    for (const auto& [most, is_new] : {std::pair(1U, false), {4U, false}, {1U, true}, {4U, true}}) {
      SCOPED_TRACE(testing::Message() << "at most " << most << (is_new ? ", of a new member" : ""));
      WorkQueue queue = open();
      WorkMember putter = join(), getter = join(acknowledge);
      std::uint64_t got = 0;
      const auto round = [&](long n, bool stays_empty) {
        SCOPED_TRACE(testing::Message() << "fails in " << n);
        EXPECT_EQ(putter.put_many(std::vector<ConstByteSpan>(most, bytes), soon()).value(), most);
        if (is_new) {
          getter = join(acknowledge);
          EXPECT_TRUE(getter.report(soon()));  // its way back is open, and it has told nothing yet
        }
        const std::uint64_t last = got + most;
        bool is_another = false, has_failed = false;
        while (got < last) {
          Result<std::vector<WorkItem>> items = std::vector<WorkItem>();
          {
            const test::FailingHeap heap(has_failed ? -1 : n, stays_empty);
            items = getter.get_many(most, soon());
            if (!has_failed) has_failed = heap.has_failed();
          }
          if (!items && is_another) return ADD_FAILURE() << to_string(items.error()), false;
          if (!items && items.error().message != "out of memory") {
            getter = join(acknowledge);
            is_another = true;
          }
          if (!items) continue;
          for (WorkItem& item : *items) {
            EXPECT_EQ(item.number(), ++got);
            EXPECT_TRUE(item.tries() == 1 || is_another);
            EXPECT_TRUE(acknowledge == Acknowledge::on_get || item.done());
          }
        }
        return has_failed;
      };
      round(-1, false);  // what is made once
      at_every_failure(round);
      EXPECT_TRUE(queue.wait_until_done(soon()));
      EXPECT_EQ(queue.report().acknowledged, got);
    }
  }
}

TEST_F(NoMemory, WhatWasPutIsCounted) {
  WorkQueue queue = open();
  WorkMember putter = join(Acknowledge::on_get, 64);
  const std::vector<std::byte> small = pattern(10, 1), large = pattern(5000, 2);
  const std::array<ConstByteSpan, 7> items{small, small, large, large, small, small, large};
  std::uint64_t all = 0;
  at_every_failure([&](long n, bool stays_empty) {
    SCOPED_TRACE(testing::Message() << "fails in " << n);
    Result<std::size_t> put = 0;
    bool has_failed = false;
    {
      const test::FailingHeap heap(n, stays_empty);
      put = putter.put_many(items, soon());
      has_failed = heap.has_failed();
    }
    EXPECT_TRUE(has_failed || put.value() == items.size());
    all += put.value_or(0);
    EXPECT_EQ(putter.report(soon())->put, all);
    return has_failed;
  });
}

}  // namespace
}  // namespace gantry
