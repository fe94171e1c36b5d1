#include <fcntl.h>
#include <sys/socket.h>

#include <thread>

#include "core/base/event.hpp"
#include "core/channel/inbox/inbox.hpp"
#include "core/channel/producer/producer.hpp"
#include "core/channel/rpc/rpc_kind.hpp"
#include "core/channel/rpc/test_rpc.hpp"
#include "core/channel/test_raw_producer.hpp"

// Clients and servers that are none: each costs itself alone, and nobody more than a deadline.
namespace gantry {
namespace {

using test::Calls;
using test::consumer_options;
using test::pattern;
using test::soon;

// ---- callers that are no clients -----------------------------------------------------------

class HostileClient : public Calls {
 protected:
  static SendOptions with_kind(RpcKind what, std::uint64_t correlation = 1) {
    return {
        .deadline = soon(), .user = static_cast<std::uint64_t>(what), .correlation = correlation};
  }
  std::shared_ptr<Producer::Impl> call() {
    auto caller = *Producer::Impl::make("service", channel_, std::make_shared<test::PlainEngine>(),
                                        Producer::Impl::Reach::calls);
    EXPECT_TRUE(caller->connector().wait_for_inbox(soon()));
    return caller;
  }
  void expect_others_are_served(Server& server) {
    Client client = connect();
    auto pending = *client.call_async(pattern(10, 1));
    ASSERT_TRUE(server.next(soon())->reply(pattern(10, 2)));
    EXPECT_EQ(outcome(pending), Code::closed);
  }
  void expect_hung_up(Server& server, Producer::Impl& caller) {
    Result<void> sent;
    SendOptions more = with_kind(RpcKind::request);
    more.deadline = Deadline::now();
    while (sent || sent.error().code == Code::timed_out) {  // it is let in, and not yet met
      ASSERT_EQ(no_request(server), Code::timed_out);
      sent = caller.send(pattern(8, 1), more);
    }
    EXPECT_EQ(sent.error().code, Code::peer_gone);
    expect_others_are_served(server);
  }
};

TEST_F(HostileClient, WhoDoesNotIntroduceItselfIsHungUpOn) {
  Server server = open();
  for (const RpcKind first : {RpcKind::request, RpcKind::cancel, RpcKind::reply, RpcKind{0}}) {
    const auto caller = call();
    ASSERT_TRUE(caller->send(pattern(8, 1), with_kind(first)));
    expect_hung_up(server, *caller);
  }
}

// An introduction whose line is none, or leads to another process.
TEST_F(HostileClient, LinesThatLeadNowhereAreNotFollowed) {
  Server server = open();
  const Fd event = *make_event();
  const Fd file(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd stream(ends[0]);
  const Fd other_end(ends[1]);
  const Fd nobody(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  for (const int line : {-1, event.get(), file.get(), stream.get(), nobody.get()}) {
    auto caller = call();
    if (line >= 0) {
      ASSERT_TRUE(caller->connector().send_control(line));
    }
    ASSERT_TRUE(caller->send(ConstByteSpan(), with_kind(RpcKind::introduce)));
    expect_hung_up(server, *caller);
  }
}

// It is there, and never speaks; or it breaks at once. That is the client's own trouble.
TEST_F(HostileClient, ALineThatIsMuteCostsItsOwnerAlone) {
  Server server = open();
  for (const bool breaks : {false, true}) {
    ControlPair lines = *make_control_pair();
    auto caller = call();
    ASSERT_TRUE(caller->connector().send_control(lines.theirs.get()));
    lines.theirs.reset();
    ASSERT_TRUE(caller->send(ConstByteSpan(), with_kind(RpcKind::introduce)));
    if (breaks) lines.ours.reset();
    ASSERT_TRUE(caller->send(pattern(8, 1), with_kind(RpcKind::request)));
    auto request = server.next(soon());
    ASSERT_TRUE(request) << request.error().message;
    static_cast<void>(request->reply(pattern(100, 1)));  // waits for nobody
    expect_others_are_served(server);
  }
}

// As a client does that dies before it took the line: nobody will ever make room there.
TEST_F(HostileClient, ALineThatIsCutBeforeItIsTakenIsNotWaitedFor) {
  Server server = open();
  const auto caller = call();
  {
    const ControlPair line = *make_control_pair();
    ASSERT_TRUE(caller->connector().send_control(line.theirs.get()));
    ASSERT_TRUE(caller->send(ConstByteSpan(), with_kind(RpcKind::introduce)));
  }
  Result<void> replied;
  for (std::uint64_t i = 1; replied && i <= 2 * channel_.slots; ++i) {
    ASSERT_TRUE(caller->send(pattern(8, 1), with_kind(RpcKind::request, i)));
    auto request = server.next(soon());
    ASSERT_TRUE(request) << request.error().message;
    replied = request->reply(pattern(8, 2), {.deadline = soon()});
  }
  ASSERT_FALSE(replied);
  EXPECT_EQ(replied.error().code, Code::peer_gone) << replied.error().message;
  expect_others_are_served(server);
}

// Cancellations without end are no requests: a late call looks at some of them.
TEST_F(HostileClient, ThatOnlyCancelsKeepsNoServerBeyondTheDeadline) {
  Server server = open();
  const Fd socket = *connect_to(directory_.path(), "service.sock");
  test::RawProducer hostile(kCells);
  hostile.join(socket);
  const ControlPair line = *make_control_pair();
  const int theirs = line.theirs.get();
  test::RawProducer::say(socket, PacketKind::control, std::span(&theirs, 1));
  MessageRecord record{};
  record.header.slot = kNoSlot;
  record.header.user = static_cast<std::uint64_t>(RpcKind::introduce);
  hostile.publish(1, record);
  record.header.user = static_cast<std::uint64_t>(RpcKind::cancel);
  for (std::uint64_t number = 2; number < kCells - 1; ++number) hostile.publish(number, record);
  record.header.user = static_cast<std::uint64_t>(RpcKind::request);
  hostile.publish(kCells - 1, record);
  hostile.wake();
  const int event = *server.event_descriptor();
  ASSERT_TRUE(*wait_readable(event, soon()));
  EXPECT_EQ(no_request(server), Code::timed_out) << "it looked until the end";
  EXPECT_TRUE(would_pass(event, POLLIN)) << "a loop would look again";
  EXPECT_TRUE(server.next(soon())) << "the request is there";
}

// It kept a copy of the end that it gave away, and could read there what was said to the server, or
// keep it from reading. The server does not listen there, but at an end of its own.
TEST_F(HostileClient, NobodyListensAtTheEndThatItGave) {
  Server server = open();
  const auto caller = call();
  const ControlPair line = *make_control_pair();
  ASSERT_TRUE(caller->connector().send_control(line.theirs.get()));
  ASSERT_TRUE(caller->send(ConstByteSpan(), with_kind(RpcKind::introduce)));
  ASSERT_TRUE(send_packet(line.ours.get(), pattern(5, 1)));  // would cost it the channel
  while (!would_pass(line.ours.get(), POLLIN))               // it is let in, and not yet met
    ASSERT_EQ(no_request(server), Code::timed_out);
  const auto answer =
      expect(*receive_wire(line.ours.get(), soon()), PacketKind::control, 1);  // to speak through
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_TRUE(expect(*receive_wire(line.ours.get(), soon()), PacketKind::hello, 0));
  ASSERT_TRUE(send_hello(answer->fds[0].get(), Purpose::join));
  EXPECT_TRUE(expect(*receive_wire(line.ours.get(), soon()), PacketKind::welcome, 3));
  expect_others_are_served(server);
}

TEST_F(HostileClient, ManyLinesAreTooMany) {
  Server server = open();
  auto caller = call();
  const ControlPair lines = *make_control_pair();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(caller->connector().send_control(lines.theirs.get()));
  expect_hung_up(server, *caller);
}

TEST_F(HostileClient, IntroducedTwiceOrWithNonsenseItIsHungUpOn) {
  Server server = open();
  for (const RpcKind second : {RpcKind::introduce, RpcKind::reply, RpcKind::refusal, RpcKind{99}}) {
    auto caller = call();
    const ControlPair lines = *make_control_pair();
    ASSERT_TRUE(caller->connector().send_control(lines.theirs.get()));
    ASSERT_TRUE(caller->send(ConstByteSpan(), with_kind(RpcKind::introduce)));
    ASSERT_TRUE(caller->send(ConstByteSpan(), with_kind(second)));
    expect_hung_up(server, *caller);
  }
}

// ---- servers that are none -----------------------------------------------------------------

class HostileServer : public HostileClient {
 protected:
  /// The way back to the client that comes next.
  std::shared_ptr<Producer::Impl> answer(Inbox::Impl& inbox) {
    const auto introduction = inbox.receive(soon());
    EXPECT_TRUE(introduction) << introduction.error().message;
    auto replies = *Producer::Impl::make("service", channel_, std::make_shared<test::PlainEngine>(),
                                         Producer::Impl::Reach::answers);
    const PeerIdentity client{introduction->sender.pid, introduction->sender.uid};
    auto control = *inbox.take_control_end(introduction->sender.id);
    EXPECT_TRUE(replies->connector().call_over(control, client));
    return replies;
  }
};

// A refusal without a reason, and replies that nobody asked for.
TEST_F(HostileServer, ItsRepliesDoNoHarm) {
  const auto inbox = *Inbox::Impl::make("service", {.channel = consumer_options(channel_)});
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  auto other = *client.call_async(pattern(10, 1));
  const auto replies = answer(*inbox);
  for (const std::uint64_t correlation : {0ull, 77ull, ~0ull})
    ASSERT_TRUE(replies->send(pattern(10, 1), with_kind(RpcKind::reply, correlation)));
  ASSERT_TRUE(replies->send(pattern(2, 1), with_kind(RpcKind::refusal, pending.correlation())));
  EXPECT_EQ(outcome(pending), Code::peer_misbehaved);
  ASSERT_TRUE(replies->send(pattern(200, 1), with_kind(RpcKind::refusal, other.correlation())));
  EXPECT_EQ(outcome(other), Code::system) << "an unknown code";
}

TEST_F(HostileServer, ThatNeverAnswersKeepsNobodyBeyondTheDeadline) {
  const auto inbox = Inbox::open("service", {.channel = consumer_options(channel_)});
  Client client = connect();
  const auto reply =
      client.call(pattern(10, 1), {.deadline = Deadline::after(std::chrono::milliseconds(5))});
  EXPECT_EQ(reply.error().code, Code::timed_out);
}

// Nobody takes the requests either: there is no credit left to ask with.
TEST_F(HostileServer, ThatTakesNothingKeepsNobodyBeyondTheDeadline) {
  const auto inbox = Inbox::open("service", {.channel = consumer_options(channel_)});
  Client client = connect();
  std::vector<PendingReply> pending;
  for (;;) {
    auto one = client.call_async(pattern(100'000, 1),
                                 {.deadline = Deadline::after(std::chrono::milliseconds(5))});
    if (!one) {
      EXPECT_EQ(one.error().code, Code::timed_out) << one.error().message;
      break;
    }
    pending.push_back(std::move(*one));
    ASSERT_LE(pending.size(), channel_.slots);
  }
  for (PendingReply& one : pending) EXPECT_EQ(outcome(one), Code::timed_out);
}

// Whoever sends without end is not listened to without end.
TEST_F(HostileServer, ThatNeverStopsKeepsNobodyBeyondTheDeadline) {
  const auto inbox = *Inbox::Impl::make("service", {.channel = consumer_options(channel_)});
  Client client = connect();
  const auto introduction = inbox->receive(soon());
  const Fd line = inbox->take_control_end(introduction->sender.id)->take();
  test::RawProducer replies;
  replies.join_over(line);
  MessageRecord record{};
  record.header.user = static_cast<std::uint64_t>(RpcKind::reply);
  record.header.slot = kNoSlot;
  std::atomic<bool> enough{false};
  std::thread flood([&] { replies.flood(record, enough); });
  for (const bool watched : {false, true}) {
    if (watched) {
      ASSERT_TRUE(client.event_descriptor());
    }
    const auto reply =
        client.call(pattern(10, 1), {.deadline = Deadline::after(std::chrono::milliseconds(5))});
    EXPECT_EQ(reply ? Code::closed : reply.error().code, Code::timed_out);
  }
  enough = true;
  flood.join();
}

// Of replies that are there when it asks, a late call looks at some; its answer is the last one.
TEST_F(HostileServer, ThatSaidMuchKeepsNobodyBeyondTheDeadline) {
  const auto inbox = *Inbox::Impl::make("service", {.channel = consumer_options(channel_)});
  Client client = connect();
  const auto introduction = inbox->receive(soon());
  const Fd line = inbox->take_control_end(introduction->sender.id)->take();
  test::RawProducer replies(kCells);
  replies.join_over(line);
  MessageRecord record{};
  record.header.user = static_cast<std::uint64_t>(RpcKind::reply);
  record.header.slot = kNoSlot;
  auto pending = *client.call_async(pattern(10, 1));
  for (std::uint64_t number = 1; number < kCells - 1; ++number) replies.publish(number, record);
  record.header.kind |= kExtra;
  record.extra.correlation = pending.correlation();
  replies.publish(kCells - 1, record);
  replies.wake();
  EXPECT_EQ(outcome(pending, Deadline::now()), Code::timed_out) << "it looked until the end";
  EXPECT_EQ(outcome(pending), Code::closed) << "the answer is there";
}

// Cut short in the midst of it, whoever asked is told to come back for the rest.
TEST_F(HostileServer, ThatStopsAtLastLeavesNothingUnseen) {
  const auto inbox = *Inbox::Impl::make("service", {.channel = consumer_options(channel_)});
  Client client = connect();
  const int descriptor = *client.event_descriptor();
  const auto introduction = inbox->receive(soon());
  const Fd line = inbox->take_control_end(introduction->sender.id)->take();
  test::RawProducer replies(kCells);  // so many ahead that there is no gap
  replies.join_over(line);
  MessageRecord record{};
  record.header.user = static_cast<std::uint64_t>(RpcKind::reply);
  record.header.slot = kNoSlot;
  auto pending = *client.call_async(pattern(10, 1));
  pending.note_woken();
  std::atomic<bool> enough{false};
  std::thread flood([&] { record.header.number = replies.flood(record, enough); });
  EXPECT_EQ(outcome(pending, Deadline::after(std::chrono::milliseconds(20))), Code::timed_out);
  enough = true;
  flood.join();
  replies.publish(record.header.number, record);
  replies.wake();
  EXPECT_TRUE(would_pass(descriptor, POLLIN)) << "there are replies that nobody was told of";
}

// Before anything else comes what the client is to speak through, and that leads to the server.
TEST_F(HostileServer, WhatIsNoLineToItIsNotSpokenThrough) {
  const Fd event = *make_event();
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd stream(ends[0]);
  const Fd other_end(ends[1]);
  const Fd nobody(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  for (const int given : {-1, event.get(), stream.get(), nobody.get()}) {
    const auto inbox = *Inbox::Impl::make("service", {.channel = consumer_options(channel_)});
    Client client = connect();
    auto pending = *client.call_async(pattern(10, 1));
    const auto introduction = inbox->receive(soon());
    const Fd line = inbox->take_control_end(introduction->sender.id)->take();
    if (given >= 0)
      ASSERT_TRUE(send_control_end(line.get(), given));
    else
      ASSERT_TRUE(send_hello(line.get(), Purpose::deliver));
    EXPECT_EQ(outcome(pending), Code::peer_gone);
  }
}

// It lets the client in, and drops the line: no reply will ever come, though the server is there.
TEST_F(HostileServer, ThatDropsTheLineEndsTheCalls) {
  const auto inbox = *Inbox::Impl::make("service", {.channel = consumer_options(channel_)});
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  const auto introduction = inbox->receive(soon());
  {
    const Fd dropped = inbox->take_control_end(introduction->sender.id)->take();
  }
  EXPECT_EQ(outcome(pending), Code::peer_gone);
}

}  // namespace
}  // namespace gantry
