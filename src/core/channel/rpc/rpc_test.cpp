#include <gmock/gmock.h>

#include <latch>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/channel/rpc/test_rpc.hpp"
#include "core/channel/wire/acceptor.hpp"

// Calls and their answers within one process: which belongs to which, what ends a call, who is
// told.
namespace gantry {
namespace {

using test::Calls;
using test::client_options;
using test::pattern;
using test::same;
using test::server_options;
using test::soon;

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

// Whoever asks first hears of the server's end for all of them.
TEST_F(Calls, ASleeperHearsOfAnEndThatAnotherCallMet) {
  std::optional<Server> server(open());
  Client client = connect();
  auto asking = *client.call_async(pattern(10, 1));
  auto sleeping = *client.call_async(pattern(10, 2));
  const int event = *client.event_descriptor();
  sleeping.note_woken();
  ASSERT_EQ(outcome(sleeping, Deadline::now()), Code::timed_out);
  server.reset();
  EXPECT_EQ(outcome(asking), Code::peer_gone);
  EXPECT_TRUE(*wait_readable(event, Deadline::now()));
  EXPECT_EQ(outcome(sleeping, Deadline::now()), Code::peer_gone);
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

// Errors name who is at the other end by what it is.
TEST_F(Calls, EachSidesEndIsToldUnderItsOwnName) {
  std::optional<Server> server(open());
  std::optional<Client> leaving(connect());
  auto answered = *leaving->call_async(pattern(10, 1));
  ASSERT_TRUE(server->next(soon())->reply(pattern(10, 1)));
  EXPECT_EQ(outcome(answered), Code::closed);  // so the way back stands
  auto pending = *leaving->call_async(pattern(10, 1));
  auto request = *server->next(soon());
  const std::string process = "(process " + std::to_string(::getpid()) + ") is gone";
  leaving.reset();
  Result<Loan> loan = request.loan(100);
  for (; loan; loan = request.loan(100)) std::this_thread::yield();
  EXPECT_EQ(loan.error().message, "channel 'service': the client " + process);
  Client client = connect();
  server.reset();
  Result<Message> reply = client.call(pattern(10, 2), {.deadline = soon()});
  EXPECT_EQ(reply.error().message, "server 'service' " + process);
  reply = client.call(pattern(10, 3), {.deadline = soon()});
  EXPECT_EQ(reply.error().message, "server 'service' " + process);
}

TEST_F(Calls, AServerThatWouldLoseRequestsIsNotOpened) {
  ServerOptions options = server_options(channel_);
  options.channel.when_slow = SlowConsumer::drop_newest;
  const auto server = Server::open("service", options, std::make_shared<test::PlainEngine>());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Code::invalid_argument);
  EXPECT_EQ(server.error().message,
            "server 'service': when_slow is drop_newest, by which requests are lost");
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
  EXPECT_TRUE(list->front().is_server);
  EXPECT_EQ(list->front().senders.size(), 1u);
}

TEST_F(Calls, AloneAreCounted) {
  Server server = open();
  Client client = connect();
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto pending = *client.call_async(pattern(10, i));
    ASSERT_TRUE(server.next(soon())->reply(pattern(20, i)));
    EXPECT_EQ(outcome(pending), Code::closed);
  }
  auto cancelled = *client.call_async(pattern(10, 3));
  auto request = *server.next(soon());
  cancelled.cancel();
  EXPECT_TRUE(request.is_cancelled()) << "the server has heard of it";
  const ChannelStatus status = list_channels(directory_.path())->front();
  EXPECT_EQ(status.producer.messages, 4u);
  EXPECT_EQ(status.producer.bytes, 40u);
  ASSERT_EQ(status.senders.size(), 1u);
  EXPECT_EQ(status.senders.front().messages, 4u);
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
    const auto refused = Client::connect("service", client_options(channel_),
                                         std::make_shared<test::PlainEngine>(), soon());
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
  channel_.slots = ProducerOptions::kMaxSlots;
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
  const Error dropped = pending.wait(soon()).error();
  EXPECT_EQ(dropped.code, Code::aborted) << "the small refusal had room";
  EXPECT_THAT(to_string(dropped),
              testing::HasSubstr("this client holds all its replies; let go of some"));
  std::vector<PendingReply> many;
  for (int i = 0; i < 4; ++i) {
    many.push_back(*client.call_async(pattern(8, 1), {.deadline = soon()}));
    static_cast<void>(server.next(soon()));
  }
  EXPECT_EQ(outcome(many[0]), Code::aborted);
  EXPECT_EQ(outcome(many[3]), Code::peer_gone);
}

// Its refusal ends for another reason than its deadline.
TEST_F(Calls, AClientWithoutRoomIsHungUpOnByAServerThatIsInterrupted) {
  channel_.slots = 2;
  const Fd interrupt = *make_event();
  ServerOptions options = server_options(channel_);
  options.channel.interrupt_descriptor = interrupt.get();
  Server server = *Server::open("service", options, std::make_shared<test::PlainEngine>());
  Client client = connect();
  std::vector<PendingReply> pending;
  pending.push_back(*client.call_async(pattern(8, 1)));
  ASSERT_TRUE(server.next(soon())->reply(pattern(8, 1)));
  ASSERT_TRUE(pending.back().wait(soon()));
  pending.clear();
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    pending.push_back(*client.call_async(pattern(8, 1), {.deadline = soon()}));
    requests.push_back(*server.next(soon()));
  }
  ring(interrupt.get());
  requests.clear();
  EXPECT_EQ(outcome(pending[0]), Code::aborted);
  EXPECT_EQ(outcome(pending[3]), Code::peer_gone);
}

// ---- while the way back is being made ------------------------------------------------------

/// Keeps an acceptor's thread from everything else until it is let go.
class Blocker final : public AcceptHandler {
 public:
  void ready(std::uint64_t) override {}
  void roused() override {
    is_in_.count_down();
    goes_on_.wait();
  }
  void block(Acceptor& acceptor) {
    EXPECT_TRUE(acceptor.add(*this));
    acceptor.rouse(*this);
    is_in_.wait();
  }
  void let_go() { goes_on_.count_down(); }

 private:
  std::latch is_in_{1}, goes_on_{1};
};

// The client was not yet greeted, and what the server drops finds no room.
TEST_F(Calls, DroppedBeforeTheClientHasRoomEndAllTheSame) {
  channel_.slots = 2;
  const auto acceptor = *make_acceptor();
  ServerOptions options = server_options(channel_);
  options.channel.acceptor = acceptor;
  std::optional<Server> server(
      *Server::open("service", options, std::make_shared<test::PlainEngine>()));
  Client client = connect();
  std::vector<PendingReply> pending;
  const auto ask = [&](std::uint64_t seed) {
    pending.push_back(*client.call_async(pattern(8, seed), {.deadline = soon()}));
  };
  ask(0);
  while (!would_pass(*server->event_descriptor(), POLLIN)) std::this_thread::yield();  // it is in
  Blocker blocker;
  blocker.block(*acceptor);
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    ASSERT_TRUE(server->next(soon()));  // and drops it
    ask(seed);
  }
  blocker.let_go();
  for (PendingReply& one : pending) {
    const Code code = outcome(one);
    EXPECT_TRUE(code == Code::peer_gone || code == Code::aborted) << to_string(code);
  }
  acceptor->remove(blocker);
}

}  // namespace
}  // namespace gantry
