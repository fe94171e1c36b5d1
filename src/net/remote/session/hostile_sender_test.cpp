#include <gmock/gmock.h>

#include <random>

#include "core/base/test_effort.hpp"
#include "net/remote/session/sending_side.hpp"
#include "net/remote/session/test_hostile_sender.hpp"

// Whoever sends into a channel of this host speaks by hand. Whatever it says, its session ends with
// one clear error at most, and the consumer here gets whole messages, in their order, or that
// error.
namespace gantry {
namespace {

using test::head_of;
using test::HostileSender;
using test::kBudget;
using test::pattern;
using test::record_of;
using test::same;
using test::SideAtWork;
using test::soon;

TEST_F(HostileSender, WhatItMaySayIsDone) {
  const auto small = pattern(3000, 1);
  const auto large = pattern(300'000, 2);
  const Export exported = shared(large);
  side_->say(head_of(1, 3000), small);
  side_->say(head_of(2, {exported.remote()}));
  const std::jthread serves([this] {
    side_->say(say_error(RemoteKind::ended, {Code::closed, "the end", {}}));
    EXPECT_EQ(side_->end().why.code, Code::closed);
  });
  expect_next(small);
  expect_next(large);
  EXPECT_EQ(in_->receive(soon()).error().code, Code::closed);
}

// Memory that holds a credit must not wait behind a message that gets its credit last.
TEST_F(HostileSender, LaterMessagesTakeNoCreditFromEarlierOnes) {
  open(2);
  const auto one = pattern(10'000, 1), two = pattern(20'000, 2), large = pattern(100'000, 3);
  const Export first = shared(one), second = shared(two), third = shared(large);
  side_->say(head_of(1, {first.remote(), second.remote()}));
  for (std::uint64_t i = 2; i <= 4; ++i) side_->say(head_of(i, {third.remote()}));
  serve_next({one, two});
  for (int i = 0; i < 3; ++i) serve_next({large});
}

TEST_F(HostileSender, OfferedPlacesLeaveRoomForALargerMessage) {
  const auto small = pattern(kBudget / 4, 1), large = pattern(kBudget / 8 * 7, 2);
  const Export first = shared(small), second = shared(large);
  side_->say(head_of(1, {first.remote()}));
  serve_next({small});
  while (static_cast<RemoteKind>(side_->hear().at(0)) != RemoteKind::place) {
  }
  side_->say(head_of(2, {second.remote()}));
  serve_next({large});
}

/// A session in which places for messages of `kPlaced` bytes have been offered.
class OfferedTo : public HostileSender {
 protected:
  static constexpr Bytes kPlaced = 300'000;

  void SetUp() override {
    open();
    const auto first = pattern(kPlaced, 1);
    const Export exported = shared(first);
    side_->say(head_of(1, {exported.remote()}));
    while (places_.empty()) hear();
    serve_next({first});
  }
  /// What the side says next: an acknowledgement or a place.
  void hear() {
    const auto record = side_->hear();
    WordReader in(record);
    const auto kind = static_cast<RemoteKind>(in.number(1));
    if (kind == RemoteKind::place) return places_.push_back(read_place(in).value());
    ASSERT_EQ(kind, RemoteKind::received);
  }
  [[nodiscard]] Result<void> put(ConstByteSpan bytes, const RemotePlace& place,
                                 std::uint64_t signal) {
    auto ticket = side_->peer().put(Transfer::of(bytes, place.region, 0, signal));
    return ticket ? side_->peer().wait(*ticket, soon()) : tl::unexpected(ticket.error());
  }
  /// Its payload can also be fetched, but is another there.
  void say_placed(std::uint64_t number, const Export& other, std::uint64_t place) {
    RemoteHead head = head_of(number, {other.remote()});
    head.place = place;
    side_->say(head);
  }

  std::vector<RemotePlace> places_;
};

TEST_F(OfferedTo, PayloadThatWasPutThereIsTheMessage) {
  EXPECT_GE(places_.front().region.bytes, kPlaced);
  const auto fetched = pattern(kPlaced, 8), smaller = pattern(5000, 9);
  const Export other = shared(fetched), shorter = shared(smaller);
  while (places_.size() < 2) hear();
  const auto before = pattern(kPlaced, 2), behind = pattern(5000, 3);
  ASSERT_TRUE(put(before, places_[0], places_[0].number));
  say_placed(2, other, places_[0].number);
  expect_next(before);
  say_placed(3, shorter, places_[1].number);  // said before it is there
  ASSERT_TRUE(put(behind, places_[1], places_[1].number));
  expect_next(behind);
}

TEST_F(OfferedTo, WhatGoesToNoPlaceIsFetched) {
  const auto fetched = pattern(kPlaced, 8), larger = pattern(kPlaced + 1, 9);
  const Export other = shared(fetched), beyond = shared(larger);
  say_placed(2, other, 1'000'000);
  serve_next({fetched});
  say_placed(3, beyond, places_[0].number);  // too small
  serve_next({larger});
}

TEST_F(OfferedTo, APlaceServesOnceAndNobodyWritesThereAfterwards) {
  const auto fetched = pattern(kPlaced, 8), placed = pattern(kPlaced, 2);
  const Export other = shared(fetched);
  const RemotePlace place = places_[0];
  ASSERT_TRUE(put(placed, place, place.number));
  say_placed(2, other, place.number);
  const auto message = in_->receive(soon());
  ASSERT_TRUE(message);
  const auto again = put(fetched, place, place.number);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::not_found);
  EXPECT_TRUE(same(message->bytes(), placed));
  say_placed(3, other, place.number);
  serve_next({fetched});
}

TEST_F(OfferedTo, LandingWhereNothingWasOfferedIsRefused) {
  EXPECT_TRUE(put(pattern(10, 2), places_[0], 1'000'000));
  expect_ends_by(Code::peer_misbehaved, "it put something where nothing was offered");
}

TEST_F(HostileSender, NumbersOutOfOrderAreRefused) {
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3},
                                     std::uint64_t{1} << 63, ~std::uint64_t{0}})
    expect_refused(fmt::format("it announces message {} behind 1", number),
                   [&] { side_->say(head_of(number, 10), pattern(10, 1)); });
}

// The end stays open until the consumer has all of it, which it does not take before.
TEST_F(HostileSender, NothingComesBehindTheEnd) {
  const auto first = pattern(100, 7);
  const auto end = say_error(RemoteKind::ended, {Code::closed, "the end", {}});
  for (const auto& more : {cut_for_link(head_of(2, 0).encode())[0], end}) {
    open();
    side_->say(head_of(1, 100), first);
    side_->say(end);
    side_->say(more);
    const RemoteEnd over = side_->end();
    EXPECT_EQ(over.kind, RemoteEnd::Kind::over);
    EXPECT_EQ(over.why.code, Code::peer_misbehaved) << to_string(over.why);
    side_->drop();
    auto message = in_->receive(soon());
    const bool has_first = message.has_value();
    if (has_first) {
      EXPECT_TRUE(same(message->bytes(), first));
      message = in_->receive(soon());
    }
    // Whether the end or what came behind it was looked at first, nobody promises; but a stream of
    // which something is missing never ends as if it were whole.
    const Code why = message.error().code;
    EXPECT_TRUE(why == Code::peer_gone || (has_first && why == Code::closed))
        << to_string(message.error());
  }
}

TEST_F(HostileSender, WhatNoSendingSideSaysIsRefused) {
  const auto number = pattern(8, 1);
  for (const unsigned kind : {0u, 4u, 5u, 6u, 7u, 8u, 127u, 255u}) {
    expect_refused("it says what no sending side says", [&] { side_->say(record_of(kind)); });
    expect_refused("it says what no sending side says",
                   [&] { side_->say(record_of(kind, number)); });
  }
  expect_refused("the pieces of its head are mixed up",
                 [&] { side_->say(record_of(RemoteKind::more, number)); });
  expect_refused("its head has no size", [&] { side_->say(record_of(RemoteKind::message)); });
  expect_refused("its head has no size",
                 [&] { side_->say(record_of(RemoteKind::message, number)); });
  const auto end = say_error(RemoteKind::ended, {Code::peer_gone, "m", "h"});
  for (std::size_t size = 1; size < end.size(); ++size)
    expect_refused("it says what no sending side says",
                   [&] { side_->say({end.begin(), end.begin() + static_cast<long>(size)}); });
  auto impossible = end;
  impossible[1] = std::byte{200};  // no such code
  expect_refused("it says what no sending side says", [&] { side_->say(impossible); });
  expect_refused("it says what no sending side says", [&] {
    auto longer = end;
    longer.push_back({});
    side_->say(longer);
  });
}

TEST_F(HostileSender, AnEndWithinAHeadIsRefused) {
  expect_refused("it says what no sending side says", [&] {
    WordWriter half;
    half.number(static_cast<unsigned>(RemoteKind::message), 1);
    half.number(1000, 4);
    half.bytes(pattern(100, 1));
    side_->say(half.take());
    side_->say(say_error(RemoteKind::ended, {Code::closed, "the end", {}}));
  });
}

TEST_F(HostileSender, HeadsThatCannotBeAreRefused) {
  const RemoteRegion one{1, 100, RemoteAccess::read};
  const auto refuse = [&](const char* words, const std::function<void(RemoteHead&)>& change) {
    expect_refused(words, [&] {
      RemoteHead head = head_of(2, {one, one});
      change(head);
      side_->say(head);
    });
  };
  refuse("199 bytes in segments of 200 together", [](RemoteHead& head) { head.bytes = 199; });
  refuse("0 bytes behind its head instead of 200",
         [](RemoteHead& head) { head.has_payload = true; });
  refuse("it has no segments", [](RemoteHead& head) { head.parts.clear(); });
  refuse("only one segment that is fetched can have a place",
         [](RemoteHead& head) { head.place = 1; });  // two parts
  refuse("segment 1 is 100 bytes at 0 of memory of 99",
         [](RemoteHead& head) { head.parts[1].region.bytes = 99; });
  refuse("segment 1 in memory that nobody may read",
         [](RemoteHead& head) { head.parts[1].region.access = RemoteAccess::write; });
  refuse("a number that is larger than allowed",
         [](RemoteHead& head) { head.parts.resize(kMaxSegments + 1); });
  refuse("segment 0 has a tensor beyond its 100 bytes",
         [](RemoteHead& head) { head.parts[0].tensor = test::bytes_tensor(1, 101); });
  refuse("segment 0 has a tensor beyond its 100 bytes", [](RemoteHead& head) {
    head.parts[0].tensor = test::bytes_tensor(2, 50);
    head.parts[0].tensor->strides[0] = -1;
  });
  refuse("a number that is larger than allowed", [](RemoteHead& head) {  // the sum wraps to 0
    for (auto& part : head.parts) part.bytes = part.region.bytes = Bytes{1} << 63;
    head.bytes = 0;
  });
}

TEST_F(HostileSender, MemoryThatWasNeverExportedIsNotReached) {
  for (const std::uint64_t key : {std::uint64_t{0}, std::uint64_t{77}, ~std::uint64_t{0}}) {
    open();
    side_->say(head_of(1, {{key, 50'000, RemoteAccess::read}}));
    const RemoteEnd end = side_->end();  // its own link refuses what it asks for, and ends
    EXPECT_EQ(end.kind, RemoteEnd::Kind::broken);
    EXPECT_EQ(end.why.code, Code::peer_gone) << to_string(end.why);
    side_->drop();
    EXPECT_EQ(in_->receive(soon()).error().code, Code::peer_gone);
  }
}

// It gives its memory back although the message has not been acknowledged.
TEST_F(HostileSender, MemoryThatIsTakenBackTooEarlyEndsTheSession) {
  const auto large = pattern(300'000, 2);
  auto exported = std::optional(shared(large));
  const RemoteRegion gone = exported->remote();
  exported.reset();
  side_->say(head_of(1, {gone}));
  expect_ends_by(Code::peer_misbehaved, "it took back a message that was on its way");
}

TEST_F(HostileSender, MoreMemoryThanThereCanBeIsRefusedAndSaid) {
  const Bytes huge = Bytes{1} << 62;
  const auto part = pattern(kBudget / 4 * 3, 1);
  for (int which = 0; which < 5; ++which) {
    open();
    const Export exported = shared(part);
    const RemoteRegion real = exported.remote();
    const RemoteRegion most{1, ~Bytes{0}, RemoteAccess::read};
    const RemoteRegion large{1, huge, RemoteAccess::read};
    side_->say(which == 0   ? head_of(1, {large})
               : which == 1 ? head_of(1, {most})
               : which == 2 ? head_of(1, {large, large})
               : which == 3 ? head_of(1, {real, large})
                            : head_of(1, {real, real}));  // each finds room, both never do
    const auto said = test::error_in(side_->hear(), RemoteKind::stopped);
    EXPECT_THAT(said.code, testing::AnyOf(Code::too_large, Code::out_of_memory)) << said.message;
    expect_ends_by(said.code, which < 4 ? "the limit is" : "of the budget of");
  }
}

TEST_F(HostileSender, MoreThanMayBeUnacknowledgedIsRefused) {
  open(2);
  std::vector<std::vector<std::byte>> sent;
  const std::size_t most = SendingSide::kMostUnacknowledged;
  // The consumer holds all its credits; the 64 behind them may wait here, and no more.
  std::vector<Message> kept;
  std::vector<Export> exports;
  for (std::uint64_t i = 1; i <= most + 40; ++i) {
    sent.push_back(pattern(3000, i));
    exports.push_back(shared(sent.back()));
    if (i > 2 && !side_->say(head_of(i, {exports.back().remote()}))) break;
    if (i > 2) continue;
    side_->say(head_of(i, 3000), sent.back());
    kept.push_back(in_->receive(soon()).value());
    EXPECT_TRUE(same(kept.back().bytes(), sent.back()));
  }
  const RemoteEnd end = side_->end();
  EXPECT_EQ(end.kind, RemoteEnd::Kind::over);
  EXPECT_EQ(end.why.code, Code::peer_misbehaved) << to_string(end.why);
  EXPECT_TRUE(same(kept[0].bytes(), sent[0]));
  EXPECT_TRUE(same(kept[1].bytes(), sent[1]));
}

TEST_F(HostileSender, AnEndlessDeadlineStaysAhead) {
  RemoteHead head = head_of(1, 10);
  head.time_left_ns = ~std::uint64_t{0};
  side_->say(head, pattern(10, 1));
  const auto message = in_->receive(soon());
  ASSERT_TRUE(message) << to_string(message.error());
  EXPECT_EQ(message->info().deadline_ns, ~std::uint64_t{0});
}

// Honest records with changed bytes, each behind an honest message.
TEST_F(HostileSender, ChangedRecordsEndTheSessionAtMost) {
  std::mt19937_64 random(test_seed(3));
  const auto first = pattern(500, 1);
  for (int round = 0; round < 150; ++round) {
    open();
    const auto large = pattern(70'000, 2);
    const Export exported = shared(large);
    side_->say(head_of(1, 500), first);
    auto record = cut_for_link(round % 2 == 0 ? head_of(2, {exported.remote()}).encode()
                                              : head_of(2, 0).encode())[0];
    for (int i = 0; i < 3; ++i) record[random() % record.size()] = static_cast<std::byte>(random());
    side_->say(record);
    side_->say(say_error(RemoteKind::ended, {Code::peer_gone, "gone", {}}));
    const RemoteEnd end = side_->end();
    EXPECT_EQ(end.kind, RemoteEnd::Kind::over) << round;
    EXPECT_NE(end.why.code, Code::closed) << round;
    side_->drop();
    Result<Message> message = in_->receive(soon());
    EXPECT_TRUE(!message || same(message->bytes(), first)) << round;
    while (message) message = in_->receive(soon());
    EXPECT_EQ(message.error().code, Code::peer_gone) << round;
  }
}

}  // namespace
}  // namespace gantry
