#include <gmock/gmock.h>
#include <sys/socket.h>

#include <gantry/request.hpp>

#include <thread>

#include "base/clock.hpp"
#include "base/event.hpp"
#include "base/socket.hpp"
#include "channel/calls.hpp"
#include "channel/inbox.hpp"
#include "channel/producer.hpp"
#include "channel/test_support.hpp"

// Calls and their answers within one process: which belongs to which, what ends a call, who is
// told.
namespace gantry {
namespace {

using test::kMiB;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class Calls : public testing::Test {
 protected:
  Server open() {
    ServerOptions options;
    options.channel = channel_;
    return *Server::open("service", options, std::make_shared<test::PlainEngine>());
  }
  Client connect() {
    auto client =
        Client::connect("service", channel_, std::make_shared<test::PlainEngine>(), soon());
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  /// Calls that end in `closed` would be answers.
  static Code outcome(PendingReply& pending, Deadline deadline = soon()) {
    const auto reply = pending.wait(deadline);
    return reply ? Code::closed : reply.error().code;
  }
  static Code no_request(Server& server) {
    const auto request = server.next(Deadline::now());
    return request ? Code::closed : request.error().code;
  }

  test::ScratchDirectory directory_;
  ChannelOptions channel_ = options_in(directory_);
};

TEST_F(Calls, AnswersFindTheirQuestions) {
  Server server = open();
  Client client = connect();
  std::vector<PendingReply> pending;
  for (std::uint64_t i = 0; i < 6; ++i)
    pending.push_back(*client.call_async(pattern(i * 30'000, i), {.type = 7}));
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.push_back(*server.next(soon()));
    EXPECT_TRUE(same(requests[i].message().bytes(), pattern(i * 30'000, i)));
    EXPECT_EQ(requests[i].message().info().type, 7u);
    EXPECT_EQ(requests[i].sender().pid, ::getpid());
    EXPECT_EQ(requests[i].remaining(), std::chrono::nanoseconds::max());
  }
  for (std::size_t i = 6; i-- > 0;)  // the last first
    ASSERT_TRUE(requests[i].reply(pattern(i * 50'000, 10 + i), {.type = 9}));
  for (const std::size_t i : {3u, 0u, 5u, 1u, 4u, 2u}) {
    const auto reply = pending[i].wait(soon());
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_TRUE(same(reply->bytes(), pattern(i * 50'000, 10 + i))) << i;
    EXPECT_EQ(reply->info().type, 9u);
    EXPECT_TRUE(pending[i].is_over());
  }
  EXPECT_EQ(outcome(pending[0]), Code::invalid_argument) << "once only";
  EXPECT_EQ(requests[0].reply(pattern(1, 1)).error().code, Code::invalid_argument) << "once only";
  EXPECT_EQ(server.report().requests, 6u);
}

TEST_F(Calls, SeveralClientsAreKeptApart) {
  Server server = open();
  constexpr std::uint64_t kClients = 4, kEach = 50;
  std::vector<std::thread> threads;
  for (std::uint64_t c = 0; c < kClients; ++c)
    threads.emplace_back([this, c] {
      Client client = connect();
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const auto asked = pattern(100 + i * 300, c * 1000 + i);
        const auto reply = client.call(asked, {.deadline = soon()});
        ASSERT_TRUE(reply) << reply.error().message;
        EXPECT_TRUE(same(reply->bytes(), asked));
      }
    });
  for (std::uint64_t i = 0; i < kClients * kEach; ++i) {
    auto request = server.next(soon());
    ASSERT_TRUE(request) << request.error().message;
    Draft echo;
    echo.copy(request->message().bytes());
    ASSERT_TRUE(request->reply(std::move(echo)));
  }
  for (auto& thread : threads) thread.join();
  while (server.report().clients != 0) ASSERT_EQ(no_request(server), Code::timed_out);
}

TEST_F(Calls, LoansGoBothWays) {
  Server server = open();
  Client client = connect();
  auto question = client.loan(kMiB);
  ASSERT_TRUE(question);
  question->bytes()[5] = std::byte{55};
  auto pending = client.call_async(std::move(*question));
  ASSERT_TRUE(pending) << pending.error().message;
  auto request = *server.next(soon());
  EXPECT_EQ(request.message().bytes()[5], std::byte{55});
  auto answer = request.loan(kMiB);
  ASSERT_TRUE(answer) << answer.error().message;
  answer->bytes()[6] = std::byte{66};
  ASSERT_TRUE(request.reply(std::move(*answer)));
  EXPECT_EQ(pending->wait(soon())->bytes()[6], std::byte{66});
}

TEST_F(Calls, ARefusalIsTheCallersError) {
  Server server = open();
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  ASSERT_TRUE(server.next(soon())->refuse({Code::not_found, "no such frame", "ask for 1 to 9"}));
  const auto reply = pending.wait(soon());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::not_found);
  EXPECT_EQ(reply.error().message, "no such frame; ask for 1 to 9");
}

TEST_F(Calls, ADroppedRequestIsToldOf) {
  Server server = open();
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  {
    const auto dropped = server.next(soon());
  }
  EXPECT_EQ(outcome(pending), Code::aborted);
}

TEST_F(Calls, PastTheirDeadlineTheyAreOverAndNotServed) {
  Server server = open();
  Client client = connect();
  auto late = *client.call_async(pattern(kMiB, 1),
                                 {.deadline = Deadline::after(std::chrono::milliseconds(2))});
  EXPECT_EQ(outcome(late), Code::timed_out);
  EXPECT_TRUE(late.is_over());
  auto good = *client.call_async(pattern(10, 2), {.deadline = soon()});
  auto request = *server.next(soon());
  EXPECT_TRUE(same(request.message().bytes(), pattern(10, 2)));
  EXPECT_EQ(server.report().expired, 1u);
  EXPECT_GT(request.remaining().count(), 0);
  EXPECT_LE(request.remaining(), std::chrono::seconds(60));
  EXPECT_EQ(outcome(good, Deadline::now()), Code::timed_out);
  EXPECT_FALSE(good.is_over()) << "only the waiting was";
  ASSERT_TRUE(request.reply(pattern(10, 3)));
  EXPECT_EQ(outcome(good), Code::closed);
}

TEST_F(Calls, WhatIsCancelledIsNotServedOrSeesIt) {
  Server server = open();
  Client client = connect();
  auto early = *client.call_async(pattern(10, 1));
  auto running = *client.call_async(pattern(10, 2));
  early.cancel();
  EXPECT_TRUE(early.is_over());
  // The cancellation is behind the second request.
  auto first = *server.next(soon());
  EXPECT_TRUE(same(first.message().bytes(), pattern(10, 1)));
  auto second = *server.next(soon());
  EXPECT_TRUE(first.is_cancelled());
  EXPECT_FALSE(second.is_cancelled());
  {
    const auto dropped = std::move(running);
  }
  EXPECT_TRUE(second.is_cancelled()) << "its pending reply was dropped";
  auto queued = *client.call_async(pattern(10, 3));
  auto other = *client.call_async(pattern(10, 4));
  queued.cancel();
  EXPECT_TRUE(second.is_cancelled());  // looks: both are queued, one cancelled
  auto next = *server.next(soon());
  EXPECT_TRUE(same(next.message().bytes(), pattern(10, next.correlation() == 3 ? 3 : 4)));
  EXPECT_TRUE(first.reply(pattern(10, 9))) << "nobody takes it";
  EXPECT_TRUE(next.reply(pattern(10, 5)));
  // Whichever came first: the cancelled one was handed out before its cancellation was read, or not
  // at all.
  if (next.correlation() == 3) {
    EXPECT_TRUE(server.next(soon())->reply(pattern(10, 5)));
  }
  EXPECT_EQ(outcome(other), Code::closed);
}

TEST_F(Calls, AServerThatLeavesEndsThemAllAndAnotherIsFound) {
  std::optional<Server> server(open());
  Client client = connect();
  auto answered = *client.call_async(pattern(kMiB, 1));
  auto open_call = *client.call_async(pattern(10, 2));
  auto unseen = *client.call_async(pattern(10, 3));
  auto request = *server->next(soon());
  auto kept = *server->next(soon());
  ASSERT_TRUE(request.reply(pattern(kMiB, 4)));
  EXPECT_EQ(outcome(answered), Code::closed);
  server.reset();
  EXPECT_EQ(outcome(open_call), Code::peer_gone);
  EXPECT_EQ(outcome(unseen), Code::peer_gone);
  EXPECT_TRUE(kept.is_cancelled());
  EXPECT_EQ(client.call(pattern(10, 4)).error().code, Code::peer_gone);
  server.emplace(open());
  ASSERT_TRUE(client.reconnect(soon()));
  auto again = *client.call_async(pattern(10, 5));
  ASSERT_TRUE(server->next(soon())->reply(pattern(10, 6)));
  EXPECT_EQ(outcome(again), Code::closed);
}

TEST_F(Calls, AClientThatLeavesIsDroppedWithItsRequests) {
  Server server = open();
  std::optional<Client> client(connect());
  auto pending = *client->call_async(pattern(10, 1));
  auto unseen = *client->call_async(pattern(10, 2));
  auto request = *server.next(soon());
  client.reset();
  EXPECT_EQ(outcome(pending), Code::peer_gone);
  while (!request.is_cancelled()) std::this_thread::yield();
  EXPECT_EQ(no_request(server), Code::timed_out) << "what it had asked beside is not served";
  EXPECT_EQ(server.report().clients, 0u);
  const Result<void> replied = request.reply(pattern(10, 3));
  ASSERT_FALSE(replied) << "it was seen to have left";
  EXPECT_EQ(replied.error().code, Code::peer_gone);
}

TEST_F(Calls, OnlyTheServerHasAName) {
  Server server = open();
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  EXPECT_EQ(list_channels(directory_.path())->size(), 1u);
  ASSERT_TRUE(server.next(soon())->reply(pattern(10, 2)));
  EXPECT_EQ(outcome(pending), Code::closed);
  const auto list = list_channels(directory_.path());
  ASSERT_EQ(list->size(), 1u);
  EXPECT_TRUE(list->front().is_inbox);
  EXPECT_EQ(list->front().senders.size(), 1u);
}

// Whoever has no token is not let in, and whoever asks the wrong server is not served.
TEST_F(Calls, TheTokenIsAsked) {
  channel_.access.token = "sesame";
  Server server = open();
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  ASSERT_TRUE(server.next(soon())->reply(pattern(10, 2)));
  EXPECT_EQ(outcome(pending), Code::closed);
  for (const char* wrong : {"", "Sesame", "sesame2"}) {
    channel_.access.token = wrong;
    const auto refused =
        Client::connect("service", channel_, std::make_shared<test::PlainEngine>(), soon());
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, Code::permission_denied) << refused.error().message;
  }
}

TEST_F(Calls, NothingIsLeft) {
  const std::size_t before = test::open_descriptors();
  {
    Server server = open();
    for (int i = 0; i < 30; ++i) {
      Client client = connect();
      auto pending = *client.call_async(pattern(100'000, 1));
      ASSERT_TRUE(server.next(soon())->reply(pattern(100'000, 2)));
      EXPECT_EQ(outcome(pending), Code::closed);
      if (i % 2 == 0) static_cast<void>(client.event_descriptor());
    }
    while (server.report().clients != 0) ASSERT_EQ(no_request(server), Code::timed_out);
  }
  EXPECT_EQ(test::open_descriptors(), before);
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(Calls, ThereAreNoMoreInFlightThanItSays) {
  channel_.slots = ChannelOptions::kMaxSlots;
  Server server = open();
  Client client = connect();
  std::vector<PendingReply> pending;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < Client::kMaxCalls; ++i) {
    pending.push_back(*client.call_async(pattern(8, i), {.deadline = soon()}));
    requests.push_back(*server.next(soon()));
  }
  EXPECT_EQ(client.call_async(pattern(8, 0)).error().code, Code::busy);
  for (std::size_t i = 0; i < Client::kMaxCalls; ++i)
    ASSERT_TRUE(requests[i].reply(pattern(1000, i)));
  for (std::size_t i = 0; i < Client::kMaxCalls; ++i)
    EXPECT_TRUE(same(pending[i].wait(soon())->bytes(), pattern(1000, i)));
}

// It keeps what it gets: the server is not held up, and the client does not wait for ever.
TEST_F(Calls, AClientWithoutRoomForItsRepliesIsHungUpOn) {
  channel_.slots = 2;
  Server server = open();
  Client client = connect();
  std::vector<Message> kept;
  for (int i = 0; i < 2; ++i) {
    auto pending = *client.call_async(pattern(8, 1));
    ASSERT_TRUE(server.next(soon())->reply(pattern(1000, 1)));
    kept.push_back(*pending.wait(soon()));
  }
  auto pending = *client.call_async(pattern(8, 1));
  {
    auto request = *server.next(soon());
    EXPECT_EQ(request.reply(pattern(1000, 2)).error().code, Code::timed_out);
  }
  EXPECT_EQ(outcome(pending), Code::aborted) << "the small refusal had room";
  std::vector<PendingReply> many;
  for (int i = 0; i < 4; ++i) {
    many.push_back(*client.call_async(pattern(8, 1), {.deadline = soon()}));
    static_cast<void>(server.next(soon()));
  }
  EXPECT_EQ(outcome(many[0]), Code::aborted);
  EXPECT_EQ(outcome(many[3]), Code::peer_gone);
}

// ---- callers that are no clients -----------------------------------------------------------

class HostileClient : public Calls {
 protected:
  static SendOptions saying(Saying what, std::uint64_t correlation = 1) {
    return {
        .deadline = soon(), .user = static_cast<std::uint64_t>(what), .correlation = correlation};
  }
  struct Lines {
    Fd ours, theirs;
  };
  static Lines make_lines() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {Fd(ends[0]), Fd(ends[1])};
  }
  std::shared_ptr<Producer::Impl> call() {
    auto caller = *Producer::Impl::make("service", channel_, std::make_shared<test::PlainEngine>(),
                                        Producer::Impl::Reach::calls);
    EXPECT_TRUE(caller->wait_for_inbox(soon()));
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
    while (sent) {
      ASSERT_EQ(no_request(server), Code::timed_out);
      sent = caller.send(pattern(8, 1), saying(Saying::request));
    }
    EXPECT_EQ(sent.error().code, Code::peer_gone);
    expect_others_are_served(server);
  }
};

TEST_F(HostileClient, WhoDoesNotIntroduceItselfIsHungUpOn) {
  Server server = open();
  for (const Saying first : {Saying::request, Saying::cancel, Saying::reply, Saying{0}}) {
    const auto caller = call();
    ASSERT_TRUE(caller->send(pattern(8, 1), saying(first)));
    expect_hung_up(server, *caller);
  }
}

// An introduction whose line is none, or leads to another process.
TEST_F(HostileClient, LinesThatLeadNowhereAreNotFollowed) {
  Server server = open();
  Producer other = *Producer::open("other", channel_, std::make_shared<test::PlainEngine>());
  const Fd event = *make_event();
  const Fd file(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const Fd stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Fd nobody(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  for (const int line : {-1, event.get(), file.get(), stream.get(), nobody.get()}) {
    auto caller = call();
    if (line >= 0) {
      ASSERT_TRUE(caller->send_line(line));
    }
    ASSERT_TRUE(caller->send(ConstByteSpan(), saying(Saying::introduce)));
    expect_hung_up(server, *caller);
  }
}

// It is there, and never speaks; or it breaks at once. That is the client's own trouble.
TEST_F(HostileClient, ALineThatIsMuteCostsItsOwnerAlone) {
  Server server = open();
  for (const bool breaks : {false, true}) {
    Lines lines = make_lines();
    auto caller = call();
    ASSERT_TRUE(caller->send_line(lines.theirs.get()));
    lines.theirs.reset();
    ASSERT_TRUE(caller->send(ConstByteSpan(), saying(Saying::introduce)));
    if (breaks) lines.ours.reset();
    ASSERT_TRUE(caller->send(pattern(8, 1), saying(Saying::request)));
    auto request = server.next(soon());
    ASSERT_TRUE(request) << request.error().message;
    static_cast<void>(request->reply(pattern(100, 1)));  // waits for nobody
    expect_others_are_served(server);
  }
}

TEST_F(HostileClient, ManyLinesAreTooMany) {
  Server server = open();
  auto caller = call();
  const Lines lines = make_lines();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(caller->send_line(lines.theirs.get()));
  expect_hung_up(server, *caller);
}

TEST_F(HostileClient, IntroducedTwiceOrWithNonsenseItIsHungUpOn) {
  Server server = open();
  for (const Saying second : {Saying::introduce, Saying::reply, Saying::refusal, Saying{99}}) {
    auto caller = call();
    const Lines lines = make_lines();
    ASSERT_TRUE(caller->send_line(lines.theirs.get()));
    ASSERT_TRUE(caller->send(ConstByteSpan(), saying(Saying::introduce)));
    ASSERT_TRUE(caller->send(ConstByteSpan(), saying(second)));
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
    EXPECT_TRUE(replies->call_over(inbox.take_line(introduction->sender.id), client));
    return replies;
  }
};

// A refusal without a reason, and replies that nobody asked for.
TEST_F(HostileServer, ItsRepliesDoNoHarm) {
  const auto inbox = *Inbox::Impl::make("service", {.channel = channel_});
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  auto other = *client.call_async(pattern(10, 1));
  const auto replies = answer(*inbox);
  for (const std::uint64_t correlation : {0ull, 77ull, ~0ull})
    ASSERT_TRUE(replies->send(pattern(10, 1), saying(Saying::reply, correlation)));
  ASSERT_TRUE(replies->send(pattern(2, 1), saying(Saying::refusal, pending.correlation())));
  EXPECT_EQ(outcome(pending), Code::peer_misbehaved);
  ASSERT_TRUE(replies->send(pattern(200, 1), saying(Saying::refusal, other.correlation())));
  EXPECT_EQ(outcome(other), Code::system) << "an unknown code";
}

TEST_F(HostileServer, ThatNeverAnswersKeepsNobodyBeyondTheDeadline) {
  const auto inbox = Inbox::open("service", {.channel = channel_});
  Client client = connect();
  const auto reply =
      client.call(pattern(10, 1), {.deadline = Deadline::after(std::chrono::milliseconds(5))});
  EXPECT_EQ(reply.error().code, Code::timed_out);
}

// Nobody takes the requests either: there is no credit left to ask with.
TEST_F(HostileServer, ThatTakesNothingKeepsNobodyBeyondTheDeadline) {
  const auto inbox = Inbox::open("service", {.channel = channel_});
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
  const auto inbox = *Inbox::Impl::make("service", {.channel = channel_});
  Client client = connect();
  const auto replies = answer(*inbox);
  std::atomic<bool> enough{false};
  std::thread flood([&] {
    while (!enough.load(std::memory_order_relaxed))
      static_cast<void>(replies->send(pattern(8, 1), saying(Saying::reply, 99)));
  });
  for (const bool watched : {false, true}) {
    if (watched) {
      ASSERT_TRUE(client.event_descriptor());
    }
    const auto reply =
        client.call(pattern(10, 1), {.deadline = Deadline::after(std::chrono::milliseconds(5))});
    EXPECT_EQ(reply.error().code, Code::timed_out);
  }
  enough = true;
  {
    const Client dropped = std::move(client);
  }  // the flood may wait for a credit
  flood.join();
}

// It lets the client in, and drops the line: no reply will ever come, though the server is there.
TEST_F(HostileServer, ThatDropsTheLineEndsTheCalls) {
  const auto inbox = *Inbox::Impl::make("service", {.channel = channel_});
  Client client = connect();
  auto pending = *client.call_async(pattern(10, 1));
  const auto introduction = inbox->receive(soon());
  {
    const Fd dropped = inbox->take_line(introduction->sender.id);
  }
  EXPECT_EQ(outcome(pending), Code::peer_gone);
}

}  // namespace
}  // namespace gantry
