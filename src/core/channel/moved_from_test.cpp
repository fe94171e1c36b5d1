#include <gmock/gmock.h>

#include <gantry/call.hpp>

#include "core/channel/rpc/test_rpc.hpp"

// Handles that were moved from: calls on them err, or return what is empty.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::pattern;
using test::soon;

class MovedFrom : public test::Calls {
 protected:
  template <class T>
  static void expect_refused(const Result<T>& result, int line) {
    ASSERT_FALSE(result) << "line " << line;
    EXPECT_EQ(result.error().code, Code::invalid_argument) << "line " << line;
    EXPECT_NE(result.error().message.find("moved from"), std::string::npos)
        << "line " << line << ": " << result.error().message;
  }
};
#define REFUSED(call) expect_refused(call, __LINE__)

// NOLINTBEGIN(bugprone-use-after-move): that is what is tested
TEST_F(MovedFrom, AProducerRefuses) {
  Producer out = *make_producer("frames", channel_);
  const Producer moved = std::move(out);
  const auto payload = pattern(1000, 1);
  REFUSED(out.send(payload, soon()));
  REFUSED(out.send(Draft().copy(payload)));
  REFUSED(out.send(*moved.pool().allocate(100)));
  REFUSED(out.send_async(payload));
  REFUSED(out.send_async(Draft().copy(payload)));
  REFUSED(out.wait(Ticket{1}, soon()));
  REFUSED(out.sent_descriptor());
  REFUSED(out.loan(10, soon()));
  REFUSED(out.send_early(Draft().move(*moved.pool().allocate(100))));
  REFUSED(out.publish(Loan()));
  REFUSED(out.wait_for_consumer(soon()));
  REFUSED(out.close(soon()));
  out.note_woken();
  EXPECT_EQ(out.outcome(Ticket{1}), Outcome::failed);
  EXPECT_FALSE(out.metrics().opened);
  EXPECT_EQ(out.explain().status.name, "");
}

TEST_F(MovedFrom, AConsumerAndItsIncomingRefuse) {
  Producer out = *make_producer("frames", channel_);
  Consumer in = *Consumer::open("frames", consumer_options(channel_), soon());
  ASSERT_TRUE(out.send(pattern(1000, 1), soon()));
  Incoming incoming = *in.receive_early(soon());
  std::vector<std::byte> buffer(1000);
  const auto expect_empty = [&](Incoming& empty) {
    REFUSED(empty.next(soon()));
    REFUSED(empty.wait_for(1, soon()));
    REFUSED(empty.into(buffer, soon()));
    REFUSED(empty.whole(soon()));
    EXPECT_EQ(empty.size(), 0u);
    EXPECT_EQ(empty.landed(), 0u);
    EXPECT_FALSE(empty.is_streamed());
    EXPECT_EQ(empty.info().sequence, 0u);
  };
  const Incoming moved_on = std::move(incoming);
  expect_empty(incoming);
  Incoming never;
  expect_empty(never);
  std::vector<Consumer> ends;
  ends.push_back(std::move(in));
  REFUSED(in.receive(soon()));
  REFUSED(in.receive_early(soon()));
  REFUSED(in.receive_into(buffer, soon()));
  REFUSED(in.rejoin(soon()));
  REFUSED(in.event_descriptor());
  REFUSED(Consumer::receive_any(std::span(&in, 1), soon()));
  EXPECT_FALSE(in.metrics().opened);
  EXPECT_EQ(in.explain().name, "");
}

TEST_F(MovedFrom, AnInboxRefuses) {
  Inbox in = *Inbox::open("box", {.channel = consumer_options(channel_)});
  const Inbox moved = std::move(in);
  REFUSED(in.receive(soon()));
  REFUSED(in.event_descriptor());
  EXPECT_TRUE(in.senders().empty());
  EXPECT_FALSE(in.metrics().opened);
}

TEST_F(MovedFrom, AClientAndItsServerRefuse) {
  Server server = open();
  Client client = connect();
  const auto payload = pattern(100, 1);
  PendingReply pending = *client.call_async(payload);
  Request request = *server.next(soon());
  {
    Request moved = std::move(request);
    REFUSED(request.reply(payload));
    REFUSED(request.reply(Draft().copy(payload)));
    REFUSED(request.reply(Loan()));
    REFUSED(request.loan(10));
    REFUSED(request.refuse({}));
    EXPECT_EQ(request.message().bytes().size(), 0u);
    EXPECT_EQ(request.sender().pid, 0);
    EXPECT_EQ(request.correlation(), 0u);
    EXPECT_EQ(request.remaining().count(), 0);
    EXPECT_TRUE(request.is_cancelled());
    EXPECT_TRUE(moved.reply(payload));
  }
  EXPECT_TRUE(pending.wait(soon()));
  const Server moved_server = std::move(server);
  const Client moved_client = std::move(client);
  REFUSED(server.next(soon()));
  REFUSED(server.event_descriptor());
  EXPECT_EQ(server.report().requests, 0u);
  REFUSED(client.call(payload));
  REFUSED(client.call(Draft().copy(payload)));
  REFUSED(client.call_async(payload));
  REFUSED(client.call_async(Draft().copy(payload)));
  REFUSED(client.call_async(Loan()));
  REFUSED(client.loan(10));
  REFUSED(client.event_descriptor());
  REFUSED(client.reconnect(soon()));
}

TEST_F(MovedFrom, AnEventLoopRefuses) {
  EventLoop loop = *EventLoop::create();
  EventLoop moved = std::move(loop);
  bool ran = false;
  const auto note = [&ran]() -> Task<> {
    ran = true;
    co_return;
  };
  REFUSED(loop.run());
  REFUSED(loop.watch(0, {}));
  loop.unwatch(0, {});
  loop.stop();
  loop.spawn(note());
  EXPECT_TRUE(moved.run());
  EXPECT_FALSE(ran) << "a task that nobody took";
  moved.spawn(note());
  EXPECT_TRUE(moved.run());
  EXPECT_TRUE(ran);
}
// NOLINTEND(bugprone-use-after-move)

}  // namespace
}  // namespace gantry
