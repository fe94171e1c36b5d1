// A connection that breaks: what was on its way arrives once, whole and in order.
#include "net/remote/bridge/test_remote.hpp"

namespace gantry {
namespace {

using test::CutNetwork;
using test::expect_stream;
using test::kMiB;
using test::pattern;
using test::same;
using test::size_of_some;
using test::soon;
using RemoteResume = test::TwoHosts;

// Cut at every stage of what happens: in a head, in payload, at a border.
TEST_F(RemoteResume, AConsumerGoesOnWhereTheConnectionBroke) {
  CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames", network.address())).value();
  ASSERT_NO_FATAL_FAILURE(expect_stream(out, in, 120, size_of_some, [&](std::uint64_t i) {
    if (i % 6 == 0) network.cut_after(static_cast<std::int64_t>(1 + 7919 * i % 100'000));
  }));
  EXPECT_GT(network.cuts(), 5);
}

TEST_F(RemoteResume, AProducerGoesOnWhereTheConnectionBroke) {
  CutNetwork network(bridge_->address());
  auto out = open_remote_producer(name("frames", network.address()).text(), here(),
                                  std::make_shared<test::PlainEngine>())
                 .value();
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  const auto size = [](std::uint64_t i) { return Bytes{30'011} * (i % 5); };
  ASSERT_NO_FATAL_FAILURE(expect_stream(out, in, 60, size, [&](std::uint64_t i) {
    if (i % 6 == 0) network.cut_after(static_cast<std::int64_t>(1 + 131 * i % 700));
  }));
  EXPECT_GT(network.cuts(), 3);
}

// No connection brings the whole of a message.
TEST_F(RemoteResume, AMessageLandsOverSeveralConnections) {
  CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames", network.address())).value();
  const auto payload = pattern(12 * kMiB + 3, 1);
  network.cut_every(5 * kMiB);
  ASSERT_TRUE(out.send(payload, {.deadline = soon()}));
  auto incoming = in.receive_early(soon());
  ASSERT_TRUE(incoming) << to_string(incoming.error());
  for (Bytes taken = 0; taken < payload.size();) {
    const auto chunk = incoming->next(soon());
    ASSERT_TRUE(chunk) << to_string(chunk.error());
    ASSERT_TRUE(same(*chunk, ConstByteSpan(payload).subspan(taken, chunk->size()))) << taken;
    taken += chunk->size();
  }
  EXPECT_GE(network.cuts(), 2);
  EXPECT_TRUE(same(incoming->whole(soon())->bytes(), payload));
  ASSERT_TRUE(out.send(pattern(10, 2), {.deadline = soon()}));
  EXPECT_TRUE(same(in.receive(soon())->bytes(), pattern(10, 2)));
}

// Its caller notices when the stall limit is over, and the bridge has waited for that.
TEST_F(RemoteResume, ACutThatOnlyTheBridgeNoticesLosesNothing) {
  patience_ = std::chrono::milliseconds(100);
  stop_bridge();
  start_bridge("127.0.0.1:0");
  stall_limit_ = std::chrono::milliseconds(900);  // of the caller
  CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames", network.address())).value();
  ASSERT_NO_FATAL_FAILURE(expect_stream(out, in, 30, size_of_some, [&](std::uint64_t i) {
    if (i == 10) network.cut_far_half();
  }));
  EXPECT_EQ(network.cuts(), 1);
}

TEST_F(RemoteResume, AConnectionThatStaysBrokenEndsTheChannelWithinItsPatience) {
  patience_ = std::chrono::milliseconds(300);
  stall_limit_ = std::chrono::milliseconds(700);  // the bridge bears with its caller for that, too
  stop_bridge();
  start_bridge("127.0.0.1:0");
  CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames", network.address())).value();
  ASSERT_TRUE(out.send(pattern(100, 1), {.deadline = soon()}));
  ASSERT_TRUE(in.receive(soon()));
  network.refuse(true);
  network.cut_after(0);
  const auto gone = in.receive(soon());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::peer_gone) << to_string(gone.error());
  Result<void> sent;
  while (sent) sent = out.send(pattern(10, 1), {.deadline = soon()});
  EXPECT_EQ(sent.error().code, Code::peer_gone) << to_string(sent.error());
}

}  // namespace
}  // namespace gantry
