#pragma once  // channel/queue/test_queue.hpp: a queue and its members in one scratch directory.

#include <gantry/call.hpp>
#include <set>

#include "core/channel/test_support.hpp"

namespace gantry::test {

class Queues : public testing::Test {
 protected:
  WorkQueue open(WorkQueueOptions options = {}) {
    options.channel.directory = directory_.path();
    auto queue = WorkQueue::open("jobs", options, std::make_shared<PlainEngine>());
    EXPECT_TRUE(queue) << to_string(queue.error());
    return std::move(*queue);
  }
  WorkMember join(Acknowledge acknowledge = Acknowledge::on_get, unsigned slots = 8) {
    WorkMemberOptions options;
    options.directory = directory_.path();
    options.slots = slots;
    options.acknowledge = acknowledge;
    auto member = WorkMember::connect("jobs", options, std::make_shared<PlainEngine>(), soon());
    EXPECT_TRUE(member) << to_string(member.error());
    return std::move(*member);
  }
  static Code get_code(WorkMember& member, Deadline deadline = Deadline::now()) {
    const auto item = member.get(deadline);
    return item ? Code::already_exists : item.error().code;
  }

  /// Puts pattern(sizes[i], i) as item i + 1.
  static void put_all(WorkMember& putter, std::span<const Bytes> sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      ASSERT_TRUE(putter.put(pattern(sizes[i], i), soon()));
  }
  [[nodiscard]] static bool is_whole(const WorkItem& item, std::span<const Bytes> sizes) {
    const std::uint64_t which = item.number() - 1;
    return which < sizes.size() && same(item.bytes(), pattern(sizes[which], which));
  }
  /// `member` gets each of these items once, whole, and finishes it.
  static void expect_each_once(WorkMember& member, std::span<const Bytes> sizes) {
    std::set<std::uint64_t> seen;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto item = member.get(soon());
      ASSERT_TRUE(item) << to_string(item.error());
      EXPECT_TRUE(seen.insert(item->number()).second) << item->number();
      EXPECT_TRUE(is_whole(*item, sizes)) << item->number();
      ASSERT_TRUE(item->done());
    }
  }

  ScratchDirectory directory_;
};

}  // namespace gantry::test
