#include "core/base/half_float.hpp"
#include "core/channel/queue/test_queue.hpp"

// Items that become another type when they are put: they alone do, and what members and their queue
// ask and tell is as without it.
namespace gantry {
namespace {

using test::same;
using test::soon;

class ConvertedItems : public test::Queues {
 protected:
  WorkMember join_as(const As& as, Acknowledge acknowledge) {
    WorkMemberOptions options;
    options.directory = directory_.path();
    options.acknowledge = acknowledge;
    options.as = as;
    return *WorkMember::connect("jobs", options, std::make_shared<test::PlainEngine>(), soon());
  }
  static void expect_bf16(const WorkItem& item, const std::vector<float>& put) {
    std::vector<std::uint16_t> made;
    for (const float value : put) made.push_back(bf16_of_float(value));
    ASSERT_EQ(item.segments(), 1u);
    EXPECT_TRUE(same(item.bytes(), std::as_bytes(std::span(made)))) << put.size();
    const auto extent = static_cast<std::int64_t>(put.size());
    EXPECT_EQ(item.segment(0).tensor, Tensor::dense(types::bf16, {&extent, 1}));
  }
};

// Small ones are copied by the queue, large ones stay where they were put.
TEST_F(ConvertedItems, ItemsBecomeWhatTheirMemberSays) {
  WorkQueue queue = open({.most_items = 8});
  for (const Acknowledge acknowledge : {Acknowledge::on_get, Acknowledge::by_hand}) {
    WorkMember member = join_as(*As::parse("f32 -> bf16"), acknowledge);
    for (const std::size_t count : {1u, 1'000u, 50'000u, 700'000u}) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 5'000) / 3 - 7;
      ASSERT_TRUE(member.reserve(soon()));
      const auto put = member.put(std::as_bytes(std::span(values)), soon());
      ASSERT_TRUE(put) << put.error().message;
      const auto report = member.report(soon());
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_EQ(report->waiting_items, 1u);
      auto item = member.get(soon());
      ASSERT_TRUE(item) << item.error().message;
      expect_bf16(*item, values);
      if (acknowledge == Acknowledge::by_hand) {
        EXPECT_TRUE(item->done());
      }
      EXPECT_TRUE(member.task_done(soon()));
    }
    EXPECT_TRUE(member.wait_until_finished(soon()));
    EXPECT_TRUE(member.wait_until_done(soon()));
    EXPECT_EQ(member.withdraw(Deadline::now()).error().code, Code::timed_out);
  }
  EXPECT_EQ(queue.report().acknowledged, 8u);
}

TEST_F(ConvertedItems, WhatIsGivenBackIsNotConvertedAgain) {
  const WorkQueue queue = open();
  WorkMember member = join_as(*As::parse("f32 -> bf16"), Acknowledge::by_hand);
  const std::vector<float> values(40'000, 1.1f);
  ASSERT_TRUE(member.put(std::as_bytes(std::span(values)), soon()));
  for (unsigned tries = 1; tries <= 3; ++tries) {
    const auto item = member.get(soon());
    ASSERT_TRUE(item) << item.error().message;
    EXPECT_EQ(item->tries(), tries);
    expect_bf16(*item, values);
  }
}

TEST_F(ConvertedItems, AQueueThatWouldConvertIsRefused) {
  WorkQueueOptions options;
  options.channel.directory = directory_.path();
  options.replies.as = types::bf16;
  const auto queue = WorkQueue::open("jobs", options, std::make_shared<test::PlainEngine>());
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().code, Code::invalid_argument);
  EXPECT_EQ(queue.error().message,
            "queue 'jobs': replies.as is bf16, but items are handed on as they were put");
  EXPECT_NE(queue.error().hint.find("WorkMemberOptions::as"), std::string::npos);
}

}  // namespace
}  // namespace gantry
