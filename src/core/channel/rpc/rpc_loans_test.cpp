// Requests and replies that are written in place.
#include <optional>
#include <thread>

#include "core/channel/rpc/test_rpc.hpp"

namespace gantry {
namespace {

using test::Calls;
using test::pattern;
using test::same;
using test::soon;

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

// Another thread may drop or send the loan that is in the way, so it is waited for.
TEST_F(Calls, AReplyWaitsForALoanOfAnotherRequest) {
  channel_.slots = 2;
  Server server = open();
  Client client = connect();
  PendingReply first = *client.call_async(pattern(8, 1), {.deadline = soon()});
  Request one = *server.next(soon());
  PendingReply second = *client.call_async(pattern(8, 2), {.deadline = soon()});
  Request other = *server.next(soon());
  const Loan kept = *one.loan(1000, soon());
  std::optional<Loan> loan(*one.loan(1000, soon()));
  const auto early = other.reply(pattern(1000, 3), {.deadline = Deadline::now()});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::timed_out) << early.error().message;
  std::jthread drops([&] { loan.reset(); });
  EXPECT_TRUE(other.reply(pattern(1000, 3), {.deadline = soon()}));
  const auto answer = second.wait(soon());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(same(answer->bytes(), pattern(1000, 3)));
}

// A call has its deadline; whoever asks for room waits for that alone.
TEST_F(Calls, RoomIsWaitedForNoLongerThanAsked) {
  channel_.slots = 2;  // the client has introduced itself with one of them
  std::optional<Server> server(open());
  Client client = connect();
  auto first = *client.call_async(pattern(1000, 1), {.deadline = soon()});
  const auto full =
      client.call_async(pattern(1000, 2), {.deadline = soon(), .room = Deadline::now()});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::timed_out) << full.error().message;
  EXPECT_TRUE(client.check());
  ASSERT_TRUE(server->next(soon())->reply(pattern(1000, 3)));
  EXPECT_EQ(outcome(first), Code::closed);
  server.reset();
  const Deadline limit = soon();
  while (client.check() && !limit.passed()) std::this_thread::yield();
  EXPECT_EQ(client.check().error().code, Code::peer_gone);
}

}  // namespace
}  // namespace gantry
