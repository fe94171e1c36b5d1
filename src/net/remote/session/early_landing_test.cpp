#include <gtest/gtest.h>

#include "net/remote/session/test_hostile_sender.hpp"

// Messages that are read while they come from another host. Property: readers get each byte once,
// in its place, over one link or several, and learn when no more comes.
namespace gantry {
namespace {

using test::head_of;
using test::pattern;
using test::same;
using test::soon;
using EarlyLanding = test::HostileSender;

TEST_F(EarlyLanding, ALargeMessageIsReadAsItLands) {
  open(8, 64 * kMiB);
  const auto payload = pattern(40 * kMiB + 5, 1);  // more than a turn takes in
  const Export exported = shared(payload);
  side_->say(head_of(1, {exported.remote()}));
  auto incoming = in_->receive_early(soon());  // of which no byte was served
  ASSERT_TRUE(incoming) << to_string(incoming.error());
  EXPECT_EQ(incoming->size(), payload.size());
  EXPECT_EQ(incoming->landed(), 0u);
  std::vector<std::byte> got;
  std::size_t chunks = 0;
  for (const Deadline deadline = soon(); got.size() < payload.size() && !deadline.passed();) {
    side_->peer().poll();
    const auto chunk = incoming->next(Deadline::now());
    if (!chunk) continue;
    ++chunks;
    got.insert(got.end(), chunk->begin(), chunk->end());
  }
  EXPECT_TRUE(same(got, payload));
  EXPECT_GT(chunks, 1u);
}

TEST_F(EarlyLanding, WhatReadersSeeGoesOnOverTheNextLink) {
  open(8, 64 * kMiB);
  const auto payload = pattern(40 * kMiB, 1), next = pattern(100, 2);
  auto exported = std::optional(shared(payload));
  side_->say(head_of(1, {exported->remote()}));
  auto incoming = in_->receive_early(soon());
  ASSERT_TRUE(incoming) << to_string(incoming.error());
  for (const Deadline deadline = soon(); incoming->landed() < kMiB && !deadline.passed();)
    side_->peer().poll();
  ASSERT_LT(incoming->landed(), payload.size());
  side_->break_link();
  // What has landed is not fetched again: here it is something else.
  auto rest = payload;
  std::fill_n(rest.begin(), kMiB, std::byte{0xee});
  exported = shared(rest);
  side_->say(head_of(1, {exported->remote()}));
  side_->say(head_of(2, next.size()), next);
  for (const Deadline deadline = soon(); incoming->landed() < payload.size() && !deadline.passed();)
    side_->peer().poll();
  const auto message = incoming->whole(soon());
  ASSERT_TRUE(message) << to_string(message.error());
  EXPECT_TRUE(same(message->bytes(), payload));
  EXPECT_EQ(message->sequence(), 1u);
  expect_next(next);
}

TEST_F(EarlyLanding, WhatReadersSeeIsNotAnnouncedAnewAsSomethingElse) {
  const auto payload = pattern(3 * kMiB, 1), other = pattern(3 * kMiB - 1, 2);
  const auto begin = [&] {
    open();
    const Export exported = shared(payload);
    side_->say(head_of(1, {exported.remote()}));
    ASSERT_TRUE(in_->receive_early(soon()));  // and dropped
    side_->break_link();
  };
  begin();
  const Export exported = shared(other);
  side_->say(head_of(1, {exported.remote()}));
  expect_ends_by(Code::peer_misbehaved, "it announces message 1 anew as another one");
  begin();
  side_->say(head_of(1, 100), pattern(100, 3));
  expect_ends_by(Code::peer_misbehaved, "it announces message 1 anew as another one");
}

TEST_F(EarlyLanding, WhatStopsLandingIsGivenUp) {
  open(8, 64 * kMiB);
  const auto payload = pattern(40 * kMiB, 1);
  auto exported = std::optional(shared(payload));
  side_->say(head_of(1, {exported->remote()}));
  auto incoming = in_->receive_early(soon());
  ASSERT_TRUE(incoming);
  for (const Deadline deadline = soon(); incoming->landed() < kMiB && !deadline.passed();)
    side_->peer().poll();
  exported.reset();
  EXPECT_EQ(side_->end().why.code, Code::peer_misbehaved);
  const auto prefix = incoming->wait_for(kMiB, soon());
  ASSERT_TRUE(prefix);
  EXPECT_TRUE(same(*prefix, ConstByteSpan(payload).first(prefix->size())));
  EXPECT_EQ(incoming->whole(soon()).error().code, Code::aborted);
  side_->drop();
  EXPECT_EQ(in_->receive(soon()).error().code, Code::peer_gone);
}

TEST_F(EarlyLanding, WhatReadersReleaseIsRoomForPartsToo) {
  open(8, 3 * kMiB);
  const auto part = pattern(900'000, 1);
  const Export one = shared(part), two = shared(part);
  for (std::uint64_t i = 1; i <= 6; ++i) {
    side_->say(head_of(i, {one.remote(), two.remote()}));
    serve_next({part, part});
  }
}

// Its turn is idle, since the link has ended without a word.
TEST(ReceivingSideTest, WhatWasOnItsWayOverADeadLinkGoesNowhere) {
  const test::ScratchDirectory scratch;
  const ProducerOptions options = test::options_in(scratch);
  auto in_options = test::consumer_options(options);
  auto out = test::make_producer("frames", options).value();
  auto in = Consumer::open("frames", in_options, soon()).value();
  ReceivingSide side(std::move(out));
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  auto link = make_stream_link(ends[0], {"mallory", std::chrono::milliseconds(0)}).value();
  auto peer = make_stream_link(ends[1], {"victim", std::chrono::milliseconds(0)}).value();
  auto payload = pattern(100'000, 1);
  const Export exported = peer->export_memory(payload, RemoteAccess::read).value();
  ASSERT_TRUE(side.begin(*link, 0));
  for (const auto& piece : cut_for_link(head_of(1, {exported.remote()}).encode()))
    ASSERT_TRUE(peer->send_control(piece, soon()));
  for (const Deadline deadline = soon(); side.may_rest() && !deadline.passed();)
    ASSERT_TRUE(side.turn(*link));
  ASSERT_FALSE(side.may_rest());  // it fetches, and nobody serves that
  link->close();
  const auto lingered = side.linger(*link);
  EXPECT_TRUE(lingered && !*lingered);
  EXPECT_EQ(side.received(), 0u);
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::timed_out);
}

}  // namespace
}  // namespace gantry
