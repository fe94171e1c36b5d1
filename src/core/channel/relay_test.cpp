#include <gtest/gtest.h>

#include <thread>

#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// A message that a relay passed on stays as it was sent, whatever becomes of the relay.
namespace gantry {
namespace {

using test::Child;
using test::consumer_options;
using test::Gate;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class Relay : public testing::Test {
 protected:
  Relay() { options_.slots = 4; }

  /// Passes on `count` messages of channel `from` to channel `to`, then reports and waits.
  void pass_on(const Child& self, const char* from, const char* to, int count) {
    ConsumerOptions reading = consumer_options(options_);
    reading.when_slow = SlowConsumer::drop_newest;  // it takes no more than it passes on
    auto in = *Consumer::open(from, reading, soon());
    auto out = *make_producer(to, options_);
    for (int i = 0; i < count; ++i) {
      Draft draft;
      draft.forward(*in.receive(soon()));
      if (!out.send(std::move(draft), {.deadline = soon()})) ::_exit(1);
    }
    self.report();
    closes_.wait();
    static_cast<void>(out.close(soon()));
  }
  /// The origin, which the first relay has joined.
  Producer open_origin() {
    options_.consumers = 2;
    auto origin = *make_producer("origin", options_);
    EXPECT_TRUE(origin.wait_for_consumer(soon()));
    return origin;
  }
  /// Reuses every slot and block of the origin many times.
  void send_on(Producer& origin, Consumer& fast) {
    for (std::uint64_t i = 100; i < 160; ++i) {
      ASSERT_TRUE(origin.send(pattern(5000, i), soon()));
      const auto message = fast.receive(soon());
      ASSERT_TRUE(message && same(message->bytes(), pattern(5000, i)));
    }
  }
  void await_departed(Producer& origin, std::size_t count) {
    while (origin.explain().status.departed.size() != count) std::this_thread::yield();
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Gate closes_;
};

TEST_F(Relay, WhatItPassedOnOutlivesItsDeath) {
  Child relay([this](const Child& self) { pass_on(self, "origin", "relayed", 2); });
  auto origin = open_origin();
  auto in = *Consumer::open("relayed", consumer_options(options_), soon());
  ASSERT_TRUE(origin.send(pattern(5000, 1), soon()));
  ASSERT_TRUE(origin.send(pattern(5000, 2), soon()));
  std::optional<Message> first(*in.receive(soon()));
  relay.await_report();
  relay.end(SIGKILL);
  await_departed(origin, 1);
  auto fast = *Consumer::open("origin", consumer_options(options_), soon());
  send_on(origin, fast);
  EXPECT_TRUE(same(first->bytes(), pattern(5000, 1))) << "held when the relay died";
  {
    const auto second = in.receive(soon());
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_TRUE(same(second->bytes(), pattern(5000, 2))) << "not yet taken when the relay died";
  }
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
  send_on(origin, fast);
  EXPECT_TRUE(same(first->bytes(), pattern(5000, 1)));
  first.reset();
  {
    const Consumer gone(std::move(in));
  }
  await_departed(origin, 0);  // nobody maps that memory any more
}

TEST_F(Relay, WhatItPassedOnOutlivesItsOrderlyEnd) {
  Child relay([this](const Child& self) { pass_on(self, "origin", "relayed", 1); });
  auto origin = open_origin();
  auto in = *Consumer::open("relayed", consumer_options(options_), soon());
  ASSERT_TRUE(origin.send(pattern(5000, 1), soon()));
  const auto message = in.receive(soon());
  ASSERT_TRUE(message);
  relay.await_report();
  closes_.open();
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  EXPECT_EQ(relay.wait(), 0);
  await_departed(origin, 1);
  auto fast = *Consumer::open("origin", consumer_options(options_), soon());
  send_on(origin, fast);
  EXPECT_TRUE(same(message->bytes(), pattern(5000, 1)));
}

// The second relay's death must not have the first one give back what the last consumer holds.
TEST_F(Relay, WhatWentThroughTwoOutlivesBoth) {
  Child first([this](const Child& self) { pass_on(self, "origin", "middle", 1); });
  Child second([this](const Child& self) { pass_on(self, "middle", "relayed", 1); });
  auto origin = open_origin();
  auto in = *Consumer::open("relayed", consumer_options(options_), soon());
  ASSERT_TRUE(origin.send(pattern(5000, 1), soon()));
  const auto message = in.receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  first.await_report();
  second.await_report();
  auto fast = *Consumer::open("origin", consumer_options(options_), soon());
  second.end(SIGKILL);
  send_on(origin, fast);
  EXPECT_TRUE(same(message->bytes(), pattern(5000, 1))) << "the second relay died";
  first.end(SIGKILL);
  send_on(origin, fast);
  EXPECT_TRUE(same(message->bytes(), pattern(5000, 1))) << "and the first one";
}

// The relay is in no call: nobody but its acceptor looks at who has left.
TEST_F(Relay, WhatIsReleasedAfterItsReaderLeftGoesBack) {
  Child relay([this](const Child& self) { pass_on(self, "origin", "relayed", 1); });
  auto origin = open_origin();
  std::optional<Consumer> in(*Consumer::open("relayed", consumer_options(options_), soon()));
  ASSERT_TRUE(origin.send(pattern(5000, 1), soon()));
  std::optional<Message> message(*in->receive(soon()));
  relay.await_report();
  in.reset();
  auto next = *Consumer::open("relayed", consumer_options(options_),
                              soon());  // so the relay knows that it left
  EXPECT_TRUE(same(message->bytes(), pattern(5000, 1)));
  EXPECT_EQ(origin.explain().status.slots_held, 1u);
  message.reset();
  const Deadline deadline = soon();
  while (origin.explain().status.slots_held != 0 && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(origin.explain().status.slots_held, 0u);
}

}  // namespace
}  // namespace gantry
