#include <gmock/gmock.h>

#include <thread>

#include "core/base/test_effort.hpp"
#include "core/channel/queue/test_queue.hpp"

// What members of a queue ask besides items: leaving the line, places, reports, the end of the
// work.
namespace gantry {
namespace {

using test::pattern;
using test::same;
using test::soon;

using WorkQuestions = test::Queues;

Code code_of(const Result<void>& result) {
  return result ? Code::already_exists : result.error().code;
}

TEST_F(WorkQuestions, WhoHasLeftTheLineGetsNothing) {
  const WorkQueue queue = open();
  WorkMember putting = join();
  WorkMember leaving = join();
  WorkMember staying = join();
  EXPECT_EQ(get_code(leaving), Code::timed_out);  // it is the first in the line
  const auto nothing = leaving.withdraw(soon());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Code::timed_out);
  ASSERT_TRUE(putting.put(pattern(300, 1), soon()));
  const auto item = staying.get(soon());
  ASSERT_TRUE(item) << to_string(item.error());
  EXPECT_TRUE(same(item->bytes(), pattern(300, 1)));
}

// Also just after its connections were made, of which either may be the first to be looked at.
TEST_F(WorkQuestions, TheWordThatAMemberHasLeftFindsItsRequest) {
  const WorkQueue queue = open();
  for (int i = 0; i < 400 / kTestStride; ++i) {
    WorkMember leaving = join();
    EXPECT_EQ(get_code(leaving), Code::timed_out);
    const Deadline deadline = soon();
    EXPECT_FALSE(leaving.withdraw(deadline));
    ASSERT_FALSE(deadline.passed()) << i;  // the queue said so
  }
}

// The questions come by another connection than the items, and either may be the first to be looked
// at.
TEST_F(WorkQuestions, WhatAMemberHasPutIsInTheFirstReportThatItGets) {
  const WorkQueue queue = open();
  for (unsigned i = 1; i <= 400u / kTestStride; ++i) {
    WorkMember putting = join();
    ASSERT_TRUE(putting.put(pattern(300, i), soon()));
    const auto report = putting.report(soon());
    ASSERT_TRUE(report) << to_string(report.error());
    ASSERT_EQ(report->waiting_items, i);
  }
}

TEST_F(WorkQuestions, WhatCameBeforeIsNotLost) {
  const WorkQueue queue = open();
  WorkMember putting = join();
  WorkMember leaving = join();
  for (const bool at_once : {false, true}) {
    EXPECT_EQ(get_code(leaving), Code::timed_out);
    ASSERT_TRUE(putting.put(pattern(300, 2), soon()));
    auto item = leaving.withdraw(at_once ? Deadline::now() : soon());
    if (at_once) {
      EXPECT_FALSE(item);
      item = leaving.get(soon());
    }
    ASSERT_TRUE(item) << to_string(item.error());
    EXPECT_TRUE(same(item->bytes(), pattern(300, 2)));
  }
  // After it has left at once and nothing came, it stands in the line anew.
  EXPECT_EQ(get_code(leaving), Code::timed_out);
  EXPECT_FALSE(leaving.withdraw(Deadline::now()));
  std::thread later([&] { EXPECT_TRUE(putting.put(pattern(8, 3), soon())); });
  EXPECT_TRUE(leaving.get(soon()));
  later.join();
}

// It does not ask again, and lives on.
TEST_F(WorkQuestions, WhatAMemberGaveUpGoesToAnother) {
  const WorkQueue queue = open();
  WorkMember putting = join();
  WorkMember leaving = join();
  WorkMember staying = join();
  EXPECT_EQ(get_code(leaving), Code::timed_out);
  ASSERT_TRUE(putting.put(pattern(300, 4), soon()));
  while (queue.report().in_hand == 0) std::this_thread::yield();  // it is on its way
  const auto nothing = leaving.withdraw(Deadline::now());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Code::timed_out);
  const auto item = staying.get(soon());
  ASSERT_TRUE(item) << to_string(item.error());
  EXPECT_TRUE(same(item->bytes(), pattern(300, 4)));
  EXPECT_EQ(item->tries(), 1u);
}

TEST_F(WorkQuestions, PlacesAreAsManyAsTheQueueMayHold) {
  const WorkQueue queue = open({.most_items = 2});
  WorkMember first = join();
  WorkMember second = join();
  ASSERT_TRUE(first.reserve(soon()));
  ASSERT_TRUE(second.reserve(soon()));
  EXPECT_EQ(code_of(second.reserve(Deadline::now())), Code::timed_out);
  ASSERT_TRUE(first.put(pattern(8, 1), soon()));  // it waits where its place was
  EXPECT_EQ(code_of(first.reserve(Deadline::now())), Code::timed_out);
  ASSERT_TRUE(first.get(soon()));
  ASSERT_TRUE(first.reserve(Deadline::now()));
  {
    const WorkMember gone = std::move(second);
  }  // its place is free
  WorkMember third = join();
  EXPECT_TRUE(third.reserve(soon()));
  EXPECT_EQ(code_of(third.reserve(Deadline::now())), Code::timed_out);
}

TEST_F(WorkQuestions, APlaceThatIsGivenBackIsAnothers) {
  const WorkQueue queue = open({.most_items = 1});
  WorkMember first = join();
  WorkMember second = join();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(first.reserve(soon()));
    EXPECT_EQ(code_of(second.reserve(Deadline::now())), Code::timed_out);
    ASSERT_TRUE(first.give_place_back());
    ASSERT_TRUE(second.reserve(soon()));
    ASSERT_TRUE(first.give_place_back());  // it has none: nothing is taken from the other
    EXPECT_EQ(code_of(first.reserve(Deadline::now())), Code::timed_out);
    ASSERT_TRUE(second.give_place_back());
  }
}

TEST_F(WorkQuestions, AReportHasAllThatWasPutBefore) {
  const WorkQueue queue = open();
  WorkMember putting = join();
  WorkMember asking = join(Acknowledge::by_hand);
  for (std::size_t i = 1; i <= 40; ++i) {
    ASSERT_TRUE(putting.put(pattern(100, i), soon()));
    const auto report = asking.report(soon());
    ASSERT_TRUE(report) << to_string(report.error());
    EXPECT_EQ(report->waiting_items, i);
    EXPECT_EQ(report->put, i);
  }
  auto item = asking.get(soon());
  ASSERT_TRUE(item);
  EXPECT_EQ(asking.report(soon())->in_hand, 1u);
  EXPECT_EQ(code_of(asking.wait_until_done(Deadline::now())), Code::timed_out);
}

TEST_F(WorkQuestions, TheEndOfTheWorkIsToldToAnyProcess) {
  const WorkQueue queue = open();
  WorkMember working = join(Acknowledge::by_hand);
  WorkMember waiting = join();
  EXPECT_TRUE(waiting.wait_until_finished(soon()));
  EXPECT_TRUE(waiting.wait_until_done(soon()));
  EXPECT_EQ(code_of(working.task_done(soon())), Code::invalid_argument);
  for (std::size_t i = 0; i < 2; ++i) ASSERT_TRUE(working.put(pattern(10, i), soon()));
  std::thread worker([&] {
    for (int i = 0; i < 2; ++i) {
      auto item = working.get(soon());
      ASSERT_TRUE(item);
      EXPECT_TRUE(working.task_done(soon()));
      EXPECT_TRUE(item->done());
    }
  });
  EXPECT_TRUE(waiting.wait_until_finished(soon()));
  EXPECT_TRUE(waiting.wait_until_done(soon()));
  worker.join();
  EXPECT_EQ(code_of(waiting.task_done(soon())), Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
