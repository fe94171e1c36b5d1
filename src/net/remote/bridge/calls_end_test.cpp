// How calls between hosts end: each in the way in which it ends on one host.
#include "net/remote/bridge/test_calls.hpp"
#include "net/remote/tls.hpp"

namespace gantry {
namespace {

using test::CutNetwork;
using test::pattern;
using test::RemoteCalls;
using test::same;
using test::soon;
using RemoteCallsEnd = RemoteCalls;

TEST_F(RemoteCallsEnd, ARefusalIsTheCallersError) {
  Server server = serve();
  Client client = connect();
  for (const Code code : {Code::not_found, Code::peer_gone, Code::timed_out, Code::system}) {
    auto pending = ask(client, pattern(10, 1));
    ASSERT_TRUE(server.next(soon())->refuse({code, "no such frame", "ask for 1 to 9"}));
    const Error why = outcome(pending);
    EXPECT_EQ(why.code, code);
    EXPECT_EQ(why.message, "no such frame; ask for 1 to 9");
  }
  auto pending = ask(client, pattern(10, 1));
  static_cast<void>(server.next(soon()).value());  // it is dropped
  EXPECT_EQ(outcome(pending).code, Code::aborted);
}

TEST_F(RemoteCallsEnd, PastTheirDeadlineTheyAreOverAndNotServed) {
  Server server = serve();
  Client client = connect();
  auto late =
      ask(client, pattern(100'000, 1), {.deadline = Deadline::after(std::chrono::milliseconds(2))});
  EXPECT_EQ(outcome(late).code, Code::timed_out);
  EXPECT_TRUE(late.is_over());
  auto good = ask(client, pattern(10, 2));
  auto request = server.next(soon()).value();
  EXPECT_TRUE(same(request.message().bytes(), pattern(10, 2)));
  EXPECT_GT(request.remaining().count(), 0);
  EXPECT_LE(request.remaining(), std::chrono::seconds(60));
  answer(request, pattern(10, 3));
  expect_answer(good, pattern(10, 3));
  auto endless = ask(client, pattern(10, 2), {});
  request = server.next(soon()).value();
  EXPECT_EQ(request.remaining(), std::chrono::nanoseconds::max());
  answer(request, pattern(10, 4));
  expect_answer(endless, pattern(10, 4));
}

// The bridge has room for no more than the client: it must hear of the cancellation first.
TEST_F(RemoteCallsEnd, ACancelledCallMakesRoomForTheNextOne) {
  Server server = serve();
  Client client = connect();
  std::deque<PendingReply> calls;
  std::deque<Request> requests;
  const auto call = [&](std::uint64_t seed) {
    calls.push_back(ask(client, pattern(4, seed)));
    requests.push_back(server.next(soon()).value());
    EXPECT_TRUE(same(requests.back().message().bytes(), pattern(4, seed))) << seed;
  };
  for (std::uint64_t i = 0; i < Client::kMaxCalls; ++i) call(i);
  for (std::uint64_t i = 0; i < 20; ++i) {
    calls.pop_front();
    call(1000 + i);
    requests.pop_front();
  }
  answer(requests.back(), pattern(10, 3));
  expect_answer(calls.back(), pattern(10, 3));
}

// Whatever meets the loss first says what happened there; so does what comes behind a reconnect()
// in vain.
TEST_F(RemoteCallsEnd, ALoanNamesTheServerThatIsLost) {
  auto server = std::optional(serve());
  Client client = connect();
  server.reset();
  const Deadline limit = soon();
  Result<Loan> loan = client.loan(100'000, soon());
  while (loan && !limit.passed()) loan = client.loan(100'000, soon());
  ASSERT_FALSE(loan);
  EXPECT_EQ(loan.error().code, Code::peer_gone);
  expect_names_it(loan.error());
  EXPECT_FALSE(client.reconnect(Deadline::after(std::chrono::milliseconds(10))));
  expect_names_it(client.check().error());
}

TEST_F(RemoteCallsEnd, TheServerHearsThatACallWasCancelled) {
  Server server = serve();
  Client client = connect();
  auto dropped = std::optional(ask(client, pattern(50'000, 1)));
  auto kept = ask(client, pattern(50'000, 2));
  auto first = server.next(soon()).value();
  auto second = server.next(soon()).value();
  EXPECT_FALSE(first.is_cancelled());
  dropped.reset();
  const Deadline limit = soon();
  while (!first.is_cancelled() && !limit.passed()) std::this_thread::yield();
  EXPECT_TRUE(first.is_cancelled());
  EXPECT_FALSE(second.is_cancelled());
  static_cast<void>(first.reply(pattern(70'000, 3), {soon()}));  // it goes nowhere
  answer(second, pattern(70'000, 4));
  expect_answer(kept, pattern(70'000, 4));
}

// More of them than a client may have: nothing of them stays.
TEST_F(RemoteCallsEnd, CancelledCallsTakeNoRoom) {
  Server server = serve();
  Client client = connect();
  std::vector<Request> kept;
  for (std::uint64_t i = 0; i < 3 * Client::kMaxCalls; ++i) {
    auto dropped = ask(client, pattern(8, i));
    auto request = server.next(soon());
    ASSERT_TRUE(request) << i << ": " << to_string(request.error());
    EXPECT_TRUE(same(request->message().bytes(), pattern(8, i)));
    kept.push_back(*std::move(request));
  }
  auto pending = ask(client, pattern(8, 1));
  auto request = server.next(soon()).value();
  answer(request, pattern(60'000, 2));
  expect_answer(pending, pattern(60'000, 2));
}

TEST_F(RemoteCallsEnd, AClientThatLeavesIsToldToTheServer) {
  Server server = serve();
  auto client = std::optional(connect());
  auto pending = ask(*client, pattern(50'000, 1));
  auto request = server.next(soon()).value();
  client.reset();
  EXPECT_EQ(outcome(pending).code, Code::peer_gone);
  const Deadline limit = soon();
  while (!request.is_cancelled() && !limit.passed()) std::this_thread::yield();
  EXPECT_TRUE(request.is_cancelled());
  while (server.report().clients != 0 && !limit.passed())
    EXPECT_FALSE(server.next(Deadline::now()));
  EXPECT_EQ(server.report().clients, 0u);
  EXPECT_TRUE(here_.is_empty());
}

TEST_F(RemoteCallsEnd, WhatTheServerAnsweredBeforeItLeftCounts) {
  auto server = std::optional(serve());
  Client client = connect();
  auto answered = ask(client, pattern(10, 1));
  auto request = server->next(soon()).value();
  answer(request, pattern(10, 2));
  expect_answer(answered, pattern(10, 2));  // so the way back stands
  answered = ask(client, pattern(10, 1));
  auto open = ask(client, pattern(10, 2));
  request = server->next(soon()).value();
  answer(request, pattern(90'000, 3));
  server.reset();
  expect_answer(answered, pattern(90'000, 3));
  Error why = outcome(open);
  EXPECT_EQ(why.code, Code::peer_gone);
  expect_names_it(why);
  EXPECT_NE(
      why.message.find("server 'service' (process " + std::to_string(::getpid()) + ") is gone"),
      std::string::npos)
      << why.message;
  EXPECT_EQ(client.call(pattern(10, 1)).error().message, why.message);
}

TEST_F(RemoteCallsEnd, AnIdleClientHearsThatItsServerLeft) {
  auto server = std::optional(serve());
  Client client = connect();
  EXPECT_TRUE(client.check());
  server.reset();
  const Deadline limit = soon();
  while (client.check() && !limit.passed()) std::this_thread::yield();
  const auto lost = client.check();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::peer_gone);
  expect_names_it(lost.error());
}

TEST_F(RemoteCallsEnd, TheNextServerOfTheNameIsReachedAgain) {
  auto server = std::optional(serve());
  Client client = connect();
  auto open = ask(client, pattern(10, 2));
  server.reset();
  EXPECT_EQ(outcome(open).code, Code::peer_gone);
  EXPECT_EQ(client.reconnect(Deadline::after(std::chrono::milliseconds(10))).error().code,
            Code::timed_out);
  server.emplace(serve());
  const auto again = client.reconnect(soon());
  ASSERT_TRUE(again) << to_string(again.error());
  auto pending = ask(client, pattern(80'000, 2));
  auto request = server->next(soon()).value();
  EXPECT_TRUE(same(request.message().bytes(), pattern(80'000, 2)));
  answer(request, pattern(80'000, 3));
  expect_answer(pending, pattern(80'000, 3));
}

// Of a session that it serves itself; one that it handed over goes on: handed_test.cpp.
TEST_F(RemoteCallsEnd, TheBridgesEndIsToldToBothEnds) {
  if (auto able = check_tls(); !able) GTEST_SKIP() << to_string(able.error());
  patience_ = std::chrono::milliseconds(100);
  stop_bridge();
  start_bridge("tls:127.0.0.1:0");
  Server server = serve();
  Client client = connect();
  auto pending = ask(client, pattern(70'000, 1));
  auto request = server.next(soon()).value();
  const std::string label = "channel '" + name("service").text() + "'";
  stop_bridge();
  const Error why = outcome(pending);
  EXPECT_EQ(why.code, Code::peer_gone);
  EXPECT_EQ(why.message.find(label), 0u) << why.message;
  const Deadline limit = soon();
  while (!request.is_cancelled() && !limit.passed()) std::this_thread::yield();
  EXPECT_TRUE(request.is_cancelled());
  while (server.report().clients != 0 && !limit.passed())
    EXPECT_FALSE(server.next(Deadline::now()));
  EXPECT_EQ(server.report().clients, 0u);
}

TEST_F(RemoteCallsEnd, AConnectionThatStaysBrokenEndsThem) {
  patience_ = std::chrono::milliseconds(300);
  stall_limit_ = std::chrono::milliseconds(700);  // the bridge bears with its caller for that, too
  stop_bridge();
  start_bridge("127.0.0.1:0");
  CutNetwork network(bridge_->address());
  Server server = serve();
  Client client = connect(network.address());
  auto pending = ask(client, pattern(10, 1));
  auto request = server.next(soon()).value();
  network.refuse(true);
  network.cut_after(0);
  EXPECT_EQ(outcome(pending).code, Code::peer_gone);
  const Deadline limit = soon();
  while (!request.is_cancelled() && !limit.passed()) std::this_thread::yield();
  EXPECT_TRUE(request.is_cancelled());
}

TEST_F(RemoteCallsEnd, AServerThatDoesNotComeIsATimeOut) {
  const auto client = try_connect({}, Deadline::after(std::chrono::milliseconds(50)));
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::timed_out);
  expect_names_it(client.error());
}

TEST_F(RemoteCallsEnd, AServerThatIsFullSaysSo) {
  ServerOptions options = test::server_options(there());
  options.clients = 1;
  const Server server =
      Server::open("service", options, std::make_shared<test::PlainEngine>()).value();
  const Client first = connect();
  const auto second = try_connect();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::busy) << to_string(second.error());
  expect_names_it(second.error());
}

}  // namespace
}  // namespace gantry
