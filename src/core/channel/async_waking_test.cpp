#include <gtest/gtest.h>
#include <gantry/call.hpp>

#include "core/base/event.hpp"
#include "core/base/os/fd.hpp"
#include "core/channel/rpc/test_rpc.hpp"

// Who is woken by whom: what one coroutine takes for another, and what was destroyed while it
// waited.
namespace gantry {
namespace {

using test::client_options;
using test::options_in;
using test::pattern;
using test::server_options;
using test::soon;

Task<> await_reply(PendingReply& pending, EventLoop& loop, bool& answered) {
  const auto answer = co_await reply(pending, loop);
  answered = answer.has_value();
}

// Two rounds of the loop: in the first, each that was rung looks and sleeps again.
Task<> two_rounds(int always_readable, EventLoop& loop) {
  for (int i = 0; i < 2; ++i) {
    const Result<void> woken = co_await readable(always_readable, loop);
    EXPECT_TRUE(woken);
  }
}

Task<> take_both(Server& server, PendingReply& own, int always_readable, EventLoop& loop) {
  co_await two_rounds(always_readable, loop);
  for (int i = 0; i < 2; ++i) {
    Result<Request> request = server.next(soon());
    EXPECT_TRUE(request && request->reply(pattern(8, 1), {.deadline = soon()}));
  }
  EXPECT_TRUE(own.wait(soon()));
  co_await two_rounds(always_readable, loop);
  loop.stop();
}

TEST(AsyncWaking, WhoeverTakesAnothersReplyWakesIt) {
  test::ScratchDirectory directory;
  const ProducerOptions options = options_in(directory);
  const auto engine = std::make_shared<test::PlainEngine>();
  auto server = Server::open("service", server_options(options), engine);
  auto client = Client::connect("service", client_options(options), engine, soon());
  ASSERT_TRUE(server && client);
  auto others = client->call_async(pattern(8, 1), {.deadline = soon()});
  auto own = client->call_async(pattern(8, 1), {.deadline = soon()});
  const auto event = make_event();
  ASSERT_TRUE(others && own && event);
  ring(event->get());
  bool answered = false;
  EventLoop loop = *EventLoop::create();
  loop.spawn(await_reply(*others, loop, answered));
  loop.spawn(take_both(*server, *own, event->get(), loop));
  ASSERT_TRUE(loop.run());
  EXPECT_TRUE(answered);
}

Task<> note_readable(int descriptor, EventLoop& loop, bool& resumed) {
  const Result<void> woken = co_await readable(descriptor, loop);
  EXPECT_TRUE(woken);
  resumed = true;
}

Task<> drop(Task<>& other, int descriptor, EventLoop& loop, bool is_first) {
  if (!is_first) {
    const Result<void> woken = co_await readable(descriptor, loop);
    EXPECT_TRUE(woken);
  }
  {
    const Task<> dropped = std::move(other);
  }
  co_await two_rounds(descriptor, loop);
}

// `is_first`: while it waits for its descriptor. Otherwise between the kernel's word and its turn.
class AsyncDropped : public testing::TestWithParam<bool> {};

TEST_P(AsyncDropped, IsNeverResumed) {
  const auto event = make_event();
  ASSERT_TRUE(event);
  ring(event->get());
  EventLoop loop = *EventLoop::create();
  bool resumed = false;
  Task<> other = note_readable(event->get(), loop, resumed);
  Task<> dropper = drop(other, event->get(), loop, GetParam());
  if (!GetParam()) dropper.handle().resume();  // waits first, so that its turn is first
  other.handle().resume();
  if (GetParam()) dropper.handle().resume();
  loop.spawn(two_rounds(event->get(), loop));
  ASSERT_TRUE(loop.run());
  EXPECT_FALSE(resumed);
  EXPECT_TRUE(other.is_done()) << "dropped";
}
INSTANTIATE_TEST_SUITE_P(WaitStrategy, AsyncDropped, testing::Values(true, false));

// Three sleep on one client; one is asked in vain, the next takes its reply for it, and the third
// says that it was woken, too: the first must be woken once more.
using WakingOfCalls = test::Calls;

TEST_F(WakingOfCalls, WhoWasAskedTooEarlyIsWokenAgain) {
  Server server = open();
  Client client = connect();
  std::array<PendingReply, 3> calls;
  for (PendingReply& call : calls) call = *client.call_async(pattern(8, 1));
  const int descriptor = *client.event_descriptor();
  const auto ask = [](PendingReply& call) {
    call.note_woken();
    return outcome(call, Deadline::now());
  };
  for (PendingReply& call : calls) ASSERT_EQ(ask(call), Code::timed_out);
  Request request = *server.next(soon());
  ASSERT_TRUE(request.reply(pattern(8, 2), {.deadline = soon()}));
  while (!calls[0].is_over()) ASSERT_EQ(ask(calls[1]), Code::timed_out);
  ASSERT_EQ(ask(calls[2]), Code::timed_out);
  EXPECT_TRUE(would_pass(descriptor, POLLIN));
  EXPECT_EQ(ask(calls[0]), Code::closed) << "it was answered";
}

}  // namespace
}  // namespace gantry
