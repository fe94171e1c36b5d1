#include <gmock/gmock.h>
#include <sched.h>
#include <gantry/call.hpp>

#include <thread>

#include "core/base/os/socket.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// A client and its server in two processes; one is killed.
namespace gantry {
namespace {

using test::Child;
using test::client_options;
using test::options_in;
using test::pattern;
using test::same;
using test::server_options;
using test::soon;

class CallProcesses : public testing::Test {
 protected:
  Result<Server> open() {
    return Server::open("service", server_options(channel_), std::make_shared<test::PlainEngine>());
  }
  Result<Client> connect() {
    return Client::connect("service", client_options(channel_),
                           std::make_shared<test::PlainEngine>(), soon());
  }
  test::ScratchDirectory directory_;
  ProducerOptions channel_ = options_in(directory_);
};

TEST_F(CallProcesses, AnswerEachOther) {
  Child child([this](const Child&) {
    auto client = connect();
    for (std::uint64_t i = 0; i < 50; ++i) {
      const auto asked = pattern(i * 40'000, i);
      const auto reply = client->call(asked, {.deadline = soon()});
      if (!reply || !same(reply->bytes(), asked)) ::_exit(1);
    }
  });
  auto server = open();
  for (std::uint64_t i = 0; i < 50; ++i) {
    auto request = server->next(soon());
    ASSERT_TRUE(request) << request.error().message;
    ASSERT_TRUE(request->reply(request->message().bytes(), {.deadline = soon()}));
  }
  EXPECT_EQ(child.wait(), 0);
  while (server->report().clients != 0)
    EXPECT_EQ(server->next(Deadline::now()).error().code, Code::timed_out);
}

// Killed at three points: before it read anything, with the requests in hand, with some answered.
TEST_F(CallProcesses, AKilledServerEndsEveryCall) {
  for (int serves = 0; serves < 3; ++serves) {
    Child child([this, serves](const Child& self) {
      auto server = open();
      self.report();
      std::vector<Request> kept;
      for (int i = 0; i < serves * 2; ++i) kept.push_back(*server->next(soon()));
      if (serves == 2) static_cast<void>(kept[0].reply(pattern(kMiB, 1)));
      self.report();
      Child::hold();
    });
    child.await_report();
    auto client = connect();
    ASSERT_TRUE(client) << client.error().message;
    std::vector<PendingReply> calls;
    for (int i = 0; i < 4; ++i) calls.push_back(*client->call_async(pattern(kMiB, 9)));
    child.await_report();
    std::thread killer([&] { child.end(SIGKILL); });
    for (int i = 0; i < 4; ++i) {
      const auto reply = calls[static_cast<std::size_t>(i)].wait(soon());
      if (reply)
        EXPECT_TRUE(serves == 2 && i == 0);
      else
        EXPECT_EQ(reply.error().code, Code::peer_gone) << reply.error().message;
    }
    killer.join();
    EXPECT_EQ(client->call(pattern(8, 1)).error().code, Code::peer_gone);
  }
}

TEST_F(CallProcesses, AKilledClientLeavesNothing) {
  auto server = open();
  ASSERT_TRUE(server);
  std::size_t before = 0;
  for (int round = 0; round < 4; ++round) {
    Child child([this](const Child& self) {
      auto client = connect();
      auto first = client->call_async(pattern(kMiB, 1));
      auto second = client->call_async(pattern(kMiB, 2));
      if (first && second) self.report();
      Child::hold();
    });
    child.await_report();
    {
      auto request = server->next(soon());
      ASSERT_TRUE(request);
      EXPECT_FALSE(request->is_cancelled());
      child.end(SIGKILL);
      while (!request->is_cancelled()) ::sched_yield();
      EXPECT_TRUE(same(request->message().bytes(), pattern(kMiB, 1))) << "held, it stays";
      const auto replied = request->reply(pattern(kMiB, 3));
      ASSERT_FALSE(replied) << "it was seen to have died";
      EXPECT_EQ(replied.error().code, Code::peer_gone);
    }
    while (server->report().clients != 0 || server->report().cancelled < unsigned(round) + 1)
      ASSERT_EQ(server->next(Deadline::now()).error().code, Code::timed_out);
    if (round == 0) before = test::descriptors_at_rest();
    EXPECT_EQ(test::descriptors_at_rest(), before) << round;
  }
  server = tl::unexpected(Error{});
  EXPECT_TRUE(directory_.is_empty());
}

// It dies before the server has taken its line.
TEST_F(CallProcesses, AClientThatDiedEarlyLeavesNothing) {
  auto server = open();
  static_cast<void>(server->next(Deadline::now()));
  const std::size_t before = test::open_descriptors();
  for (int round = 0; round < 3; ++round) {
    Child child([this](const Child& self) {
      auto client = connect();
      self.report();
      Child::hold();
    });
    child.await_report();
    while (list_channels(directory_.path())->at(0).senders.empty()) ::sched_yield();
    child.end(SIGKILL);
    do {
      EXPECT_EQ(server->next(Deadline::now()).error().code, Code::timed_out);
    } while (server->report().clients != 0 ||
             !list_channels(directory_.path())->at(0).senders.empty());
  }
  // The acceptor hangs up on who only looked (the list) after it has answered.
  for (const Deadline late = soon(); test::open_descriptors() != before && !late.passed();)
    ::sched_yield();
  EXPECT_EQ(test::open_descriptors(), before);
}

// It is there, and stopped: its clients' deadlines hold all the same.
TEST_F(CallProcesses, AStoppedServerKeepsNobodyBeyondTheDeadline) {
  Child child([this](const Child& self) {
    auto server = open();
    self.report();
    while (auto request = server->next(soon())) static_cast<void>(request->reply(pattern(9, 1)));
  });
  child.await_report();
  auto client = connect();
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE(client->call(pattern(9, 1), {.deadline = soon()}));
  child.stop();
  const auto reply =
      client->call(pattern(9, 2), {.deadline = Deadline::after(std::chrono::milliseconds(20))});
  EXPECT_EQ(reply.error().code, Code::timed_out);
  const auto second =
      Client::connect("service", client_options(channel_), std::make_shared<test::PlainEngine>(),
                      Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_EQ(second.error().code, Code::timed_out);
  ::kill(child.pid(), SIGCONT);
  EXPECT_TRUE(client->call(pattern(9, 3), {.deadline = soon()}));
}

}  // namespace
}  // namespace gantry
