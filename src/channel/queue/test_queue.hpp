#pragma once  // channel/queue/test_queue.hpp: a queue and its members in one scratch directory.

#include <gantry/channel/work_queue.hpp>

#include "channel/test_support.hpp"

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

  ScratchDirectory directory_;
};

}  // namespace gantry::test
