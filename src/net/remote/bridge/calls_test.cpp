// Calls between hosts: a bridge in this process, every byte compared.
#include <set>

#include "core/base/os/socket.hpp"
#include "net/remote/bridge/test_calls.hpp"
#include "net/remote/session/calls.hpp"

namespace gantry {
namespace {

using test::CutNetwork;
using test::kMiB;
using test::pattern;
using test::RemoteCalls;
using test::same;
using test::soon;

const std::vector<Bytes> kCallSizes{0,    1,    64,    65,         4000,     4030,        4031,
                                    4095, 4096, 65536, 1000 * 999, kMiB + 1, 9 * kMiB + 7};

TEST_F(RemoteCalls, EachByteArrivesInBothDirectionsAtEverySize) {
  Server server = serve();
  Client client = connect();
  std::jthread service([&] {
    for (std::size_t i = 0; i < kCallSizes.size(); ++i) {
      auto request = server.next(soon());
      ASSERT_TRUE(request) << to_string(request.error());
      EXPECT_TRUE(same(request->message().bytes(), pattern(kCallSizes[i], i))) << kCallSizes[i];
      EXPECT_EQ(request->message().info().type, i);
      answer(*request, pattern(kCallSizes[kCallSizes.size() - 1 - i], 100 + i),
             static_cast<std::uint32_t>(200 + i));
    }
  });
  for (std::size_t i = 0; i < kCallSizes.size(); ++i) {
    auto pending = ask(client, pattern(kCallSizes[i], i),
                       {.deadline = soon(), .type = static_cast<std::uint32_t>(i)});
    const auto reply = pending.wait(soon());
    ASSERT_TRUE(reply) << to_string(reply.error());
    EXPECT_TRUE(same(reply->bytes(), pattern(kCallSizes[kCallSizes.size() - 1 - i], 100 + i)));
    EXPECT_EQ(reply->info().type, 200 + i);
  }
}

TEST_F(RemoteCalls, AnswersFindTheirQuestions) {
  Server server = serve();
  Client client = connect();
  std::vector<PendingReply> pending;
  for (std::uint64_t i = 0; i < 6; ++i) pending.push_back(ask(client, pattern(i * 30'000, i)));
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.push_back(server.next(soon()).value());
    EXPECT_TRUE(same(requests[i].message().bytes(), pattern(i * 30'000, i)));
  }
  for (std::size_t i = 6; i-- > 0;) answer(requests[i], pattern(i * 50'000, 10 + i));
  for (const std::size_t i : {3u, 0u, 5u, 1u, 4u, 2u})
    expect_answer(pending[i], pattern(i * 50'000, 10 + i));
  EXPECT_EQ(outcome(pending[0]).code, Code::invalid_argument) << "once only";
  EXPECT_EQ(server.report().requests, 6u);
}

TEST_F(RemoteCalls, PartsTensorsAndLoansKeepTheirBytes) {
  Server server = serve();
  Client client = connect();
  const std::array<std::int64_t, 3> shape{40, 50, 60};
  const Tensor floats = Tensor::dense({DataType::floating, 32, 1}, shape);
  const auto first = pattern(480'000, 1), second = pattern(70, 2);
  auto asked = client.call_async(Draft().copy(first, floats).copy({}).copy(second)).value();
  auto request = server.next(soon()).value();
  ASSERT_EQ(request.message().segments(), 3u);
  EXPECT_TRUE(same(request.message().segment(0).bytes, first));
  EXPECT_EQ(request.message().segment(0).tensor, floats);
  EXPECT_TRUE(same(request.message().segment(2).bytes, second));
  ASSERT_TRUE(request.reply(Draft().copy(second).copy(first, floats), {soon()}));
  const auto reply = asked.wait(soon());
  ASSERT_TRUE(reply) << to_string(reply.error());
  ASSERT_EQ(reply->segments(), 2u);
  EXPECT_TRUE(same(reply->segment(0).bytes, second));
  EXPECT_TRUE(same(reply->segment(1).bytes, first));
  EXPECT_EQ(reply->segment(1).tensor, floats);
  Loan loan = client.loan(first.size(), soon()).value();
  std::ranges::copy(first, loan.bytes().begin());
  auto lent = client.call_async(std::move(loan)).value();
  request = server.next(soon()).value();
  EXPECT_TRUE(same(request.message().bytes(), first));
  loan = request.loan(first.size(), soon()).value();
  std::ranges::copy(first, loan.bytes().begin());
  ASSERT_TRUE(request.reply(std::move(loan)));
  expect_answer(lent, first);
}

TEST_F(RemoteCalls, SeveralClientsAreKeptApart) {
  Server server = serve();
  constexpr std::uint64_t kClients = 4, kEach = 30;
  std::vector<std::jthread> threads;
  for (std::uint64_t c = 0; c < kClients; ++c)
    threads.emplace_back([this, c] {
      Client client = connect();
      for (std::uint64_t i = 0; i < kEach; ++i) {
        auto pending = ask(client, pattern(100 + i * 900, c * 1000 + i));
        expect_answer(pending, pattern(100 + i * 900, c * 1000 + i));
      }
    });
  for (std::uint64_t i = 0; i < kClients * kEach; ++i) {
    auto request = server.next(soon());
    ASSERT_TRUE(request) << to_string(request.error());
    EXPECT_TRUE(request->reply(Draft().copy(request->message().bytes()), {soon()}));
  }
  threads.clear();
  while (server.report().clients != 0) ASSERT_FALSE(server.next(Deadline::now()));
}

TEST_F(RemoteCalls, AsManyAreInFlightAsOnOneHost) {
  Server server = serve();
  Client client = connect();
  std::vector<PendingReply> pending;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < Client::kMaxCalls; ++i) {
    pending.push_back(ask(client, pattern(8, i)));
    requests.push_back(server.next(soon()).value());
  }
  const auto busy = client.call_async(pattern(8, 0));
  EXPECT_EQ(busy.error().code, Code::busy);
  EXPECT_EQ(busy.error().message,
            "server '" + name("service").text() + "': 64 calls are in flight");
  std::jthread service([&] {
    for (std::size_t i = 0; i < Client::kMaxCalls; ++i) answer(requests[i], pattern(50'000, i));
  });
  std::vector<Message> kept;  // here nobody is short of room for answers
  for (std::size_t i = 0; i < Client::kMaxCalls; ++i) {
    kept.push_back(pending[i].wait(soon()).value());
    EXPECT_TRUE(same(kept[i].bytes(), pattern(50'000, i))) << i;
  }
}

TEST_F(RemoteCalls, AWaiterSleepsOnItsDescriptor) {
  Server server = serve();
  Client client = connect();
  auto pending = ask(client, pattern(5000, 1));
  const int event = client.event_descriptor().value();
  EXPECT_EQ(pending.wait(Deadline::now()).error().code, Code::timed_out);
  EXPECT_FALSE(pending.is_over());
  auto request = server.next(soon()).value();
  answer(request, pattern(70'000, 2));
  for (;;) {
    const auto reply = pending.wait(Deadline::now());
    if (reply) {
      EXPECT_TRUE(same(reply->bytes(), pattern(70'000, 2)));
      return;
    }
    ASSERT_EQ(reply.error().code, Code::timed_out);
    ASSERT_TRUE(wait_readable(event, soon()).value());
    pending.note_woken();
  }
}

// Its room for answers is eight messages, and it waits for nobody.
TEST_F(RemoteCalls, AnswersOnTheirWayTakeNoRoomFromThoseToCome) {
  Server server = serve();
  ClientOptions options = test::client_options(there());
  const Pool pool = Pool::create().value();
  options.memory = pool;
  options.slots = PayloadOptions::kMaxSlots;
  CallsMade calls(
      Client::connect("service", options, std::make_shared<test::PlainEngine>(), soon()).value(),
      pool);
  constexpr std::uint64_t kCalls = 30;
  SendOptions request;
  request.user = static_cast<std::uint64_t>(CallKind::request);
  std::vector<Request> requests;
  for (request.correlation = 1; request.correlation <= kCalls; ++request.correlation) {
    ASSERT_TRUE(calls.send(ConstByteSpan(), request));
    requests.push_back(server.next(soon()).value());
  }
  std::vector<Message> on_their_way;
  for (std::uint64_t i = 0; i < kCalls - 7; ++i) {
    const auto replied = requests[i].reply(pattern(5000, i));
    ASSERT_TRUE(replied) << i << ": " << to_string(replied.error());
    auto taken = calls.take();
    while (!taken) taken = calls.take();
    EXPECT_TRUE(same(taken->bytes(), pattern(5000, i)));
    EXPECT_EQ(taken->info().correlation, i + 1);
    on_their_way.push_back(*std::move(taken));
  }
  for (std::uint64_t i = 0; i < on_their_way.size(); ++i)
    EXPECT_TRUE(same(on_their_way[i].bytes(), pattern(5000, i))) << i;
}

// Cut at every stage of what happens, in questions and in answers.
TEST_F(RemoteCalls, GoOnWhereTheConnectionBroke) {
  CutNetwork network(bridge_->address());
  Server server = serve();
  Client client = connect(network.address());
  constexpr std::uint64_t kCalls = 120;
  const auto size_of = [](std::uint64_t i) { return i % 3 == 0 ? 50 : 20'011 * (i % 7); };
  std::jthread service([&] {
    std::set<std::uint32_t> seen;
    for (std::uint64_t i = 0; i < kCalls; ++i) {
      auto request = server.next(soon());
      ASSERT_TRUE(request) << i << ": " << to_string(request.error());
      const auto which = request->message().info().type;
      EXPECT_TRUE(seen.insert(which).second) << which << " is asked twice";
      EXPECT_TRUE(same(request->message().bytes(), pattern(size_of(which), which)));
      answer(*request, pattern(size_of(kCalls - which), 1000 + which));
    }
  });
  std::deque<PendingReply> pending;
  for (std::uint64_t i = 0; i < kCalls + 3; ++i) {
    if (i % 6 == 0) network.cut_after(static_cast<std::int64_t>(1 + 7919 * i % 100'000));
    if (i < kCalls)
      pending.push_back(ask(client, pattern(size_of(i), i),
                            {.deadline = soon(), .type = static_cast<std::uint32_t>(i)}));
    if (i < 3) continue;
    expect_answer(pending.front(), pattern(size_of(kCalls - (i - 3)), 1000 + i - 3));
    pending.pop_front();
  }
  service.join();
  EXPECT_EQ(server.report().requests, kCalls);
  EXPECT_GT(network.cuts(), 5);
}

}  // namespace
}  // namespace gantry
