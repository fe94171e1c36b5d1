#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "core/base/test_effort.hpp"
#include "net/remote/session/sending_side.hpp"
#include "net/remote/session/test_hostile.hpp"

// Whoever receives from a channel of this host speaks by hand. Whatever it says, its session ends
// with one clear error at most; it reads nothing but messages that it was told of and still owes.
namespace gantry {
namespace {

using test::pattern;
using test::Record;
using test::record_of;
using test::same;
using test::SideAtWork;
using test::soon;

class HostileReceiver : public ::testing::Test {
 protected:
  void SetUp() override { open(); }

  void open(std::uint64_t received = 0) {
    side_.reset();
    out_.reset();
    ProducerOptions options = test::options_in(scratch_);
    options.slots = PayloadOptions::kMaxSlots;
    out_ = test::make_producer("frames", options).value();
    auto in = Consumer::open("frames", test::consumer_options(options), soon()).value();
    side_.emplace(std::make_unique<SendingSide>(std::move(in)), received);
  }
  void send(Bytes size, std::uint64_t seed) {
    EXPECT_TRUE(out_->send(pattern(size, seed), {.deadline = soon()}));
  }
  /// The next announcement, of one piece, and what follows it.
  RemoteHead hear_head(std::vector<std::byte>* payload = nullptr) {
    HeadAssembler assembler;
    const Record record = side_->hear();
    EXPECT_EQ(record.at(0), static_cast<std::byte>(RemoteKind::message));
    EXPECT_TRUE(assembler.take(true, ConstByteSpan(record).subspan(1)).value());
    ConstByteSpan rest;
    auto head = RemoteHead::decode(assembler.words(), rest);
    EXPECT_TRUE(head);
    if (payload != nullptr) payload->assign(rest.begin(), rest.end());
    return head.value_or(RemoteHead{});
  }
  /// Fetches what the head says of part 0.
  Result<std::vector<std::byte>> fetch(const RemoteHead& head) {
    std::vector<std::byte> into(head.parts.at(0).bytes);
    auto ticket = side_->peer().get(Transfer::of(into, head.parts[0].region));
    if (!ticket) return tl::unexpected(ticket.error());
    auto done = side_->peer().wait(*ticket, soon());
    if (!done) return tl::unexpected(done.error());
    return into;
  }
  /// The session ends so; the producer here learns that its consumer has gone.
  void expect_ends_by(Code code, std::string_view words) {
    const RemoteEnd end = side_->end();
    EXPECT_EQ(end.kind, RemoteEnd::Kind::over);
    EXPECT_EQ(end.why.code, code) << to_string(end.why);
    EXPECT_NE(end.why.message.find(words), std::string::npos) << to_string(end.why);
    side_->drop();
    Result<void> sent;
    while (sent) sent = out_->send(pattern(10, 1), {.deadline = soon()});
    EXPECT_EQ(sent.error().code, Code::peer_gone) << to_string(sent.error());
  }
  /// A fresh session, of which three messages are announced.
  void expect_refused(std::string_view words, const std::function<void()>& say) {
    open();
    for (const Bytes size : {10, 100'000, 0}) send(size, size);
    for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(hear_head().number, i);
    say();
    expect_ends_by(Code::peer_misbehaved, words);
  }

  const test::ScratchDirectory scratch_;
  std::optional<Producer> out_;
  std::optional<SideAtWork> side_;
};

// ---- places that it offers -------------------------------------------------------------------

/// Memory of the receiver, and what the side is told of it.
struct OfferedMemory {
  OfferedMemory(Link& link, Bytes size, std::uint64_t number)
      : bytes(size),
        exported(link.export_memory(bytes, RemoteAccess::write).value()),
        place{number, exported.remote()} {}
  std::vector<std::byte> bytes;
  Export exported;
  RemotePlace place;
};

TEST_F(HostileReceiver, PayloadIsPutWhereItIsOffered) {
  OfferedMemory memory(side_->peer(), 200'000, 7);
  side_->say(say_place(memory.place));
  send(150'000, 1);  // it may be announced before the side has heard of the place
  RemoteHead head = hear_head();
  if (head.place == 0) {
    side_->say(say_number(RemoteKind::received, head.number));
    send(150'000, 1);
    head = hear_head();
  }
  ASSERT_EQ(head.place, 7u);
  EXPECT_EQ(side_->peer().receive_signal(soon()).value_or(0), 7u);
  EXPECT_TRUE(same(ConstByteSpan(memory.bytes).first(150'000), pattern(150'000, 1)));
  EXPECT_TRUE(same(fetch(head).value(), pattern(150'000, 1))) << "it can be fetched as well";
  send(150'000, 2);
  EXPECT_EQ(hear_head().place, 0u) << "there was one place";
}

TEST_F(HostileReceiver, APlaceThatWasWithdrawnLosesNothing) {
  OfferedMemory memory(side_->peer(), 200'000, 7);
  side_->say(say_place(memory.place));
  memory.exported.withdraw();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    send(150'000, i);
    EXPECT_TRUE(same(fetch(hear_head()).value(), pattern(150'000, i)));
    side_->say(say_number(RemoteKind::received, i));
  }
}

// Its bytes would be given back while the link still reads them.
TEST_F(HostileReceiver, AMessageThatIsStillBeingPutCannotHaveBeenReceived) {
  constexpr Bytes kSize = Bytes{64} << 20;
  OfferedMemory memory(side_->peer(), kSize, 7);
  side_->say(say_place(memory.place));
  send(kSize, 1);  // it may be announced before the side has heard of the place
  RemoteHead head = hear_head();
  if (head.place == 0) {
    side_->say(say_number(RemoteKind::received, head.number));
    send(kSize, 2);
    head = hear_head();
  }
  ASSERT_EQ(head.place, 7u);
  side_->say(say_number(RemoteKind::received, head.number));
  expect_ends_by(Code::peer_misbehaved, "it has received a message that is still on its way");
}

TEST_F(HostileReceiver, PlacesThatCannotBeAreRefused) {
  const RemoteRegion region{1, 100, RemoteAccess::write};
  const auto good = say_place({1, region});
  for (std::size_t size = 1; size < good.size(); ++size)
    expect_refused("it offers a place that cannot be",
                   [&] { side_->say({good.begin(), good.begin() + static_cast<long>(size)}); });
  expect_refused("it offers a place that cannot be", [&] { side_->say(say_place({0, region})); });
  expect_refused("it offers a place that cannot be",
                 [&] { side_->say(say_place({1, {1, 100, RemoteAccess::read}})); });
  expect_refused("it offers a place that cannot be", [&] {
    auto longer = good;
    longer.push_back({});
    side_->say(longer);
  });
  expect_refused("it offers more places than allowed", [&] {
    for (std::uint64_t i = 1; i <= 65; ++i) side_->say(say_place({i, region}));
  });
}

TEST_F(HostileReceiver, WhatItMaySayIsDone) {
  send(1000, 1);
  send(200'000, 2);
  std::vector<std::byte> small;
  EXPECT_EQ(hear_head(&small).number, 1u);
  EXPECT_TRUE(same(small, pattern(1000, 1)));
  const RemoteHead head = hear_head();
  EXPECT_EQ(head.number, 2u);
  EXPECT_TRUE(same(fetch(head).value(), pattern(200'000, 2)));
  side_->say(say_number(RemoteKind::received, 2));
  std::jthread closes([this] { EXPECT_TRUE(out_->close(soon())); });
  const Error end = test::error_in(side_->hear(), RemoteKind::ended);
  EXPECT_EQ(end.code, Code::closed);
  side_->say(say_number(RemoteKind::finished, 2));
  EXPECT_EQ(side_->end().why.code, Code::closed);
  side_->drop();
}

TEST_F(HostileReceiver, AcknowledgementsBeyondWhatWasSentOrGoingBackAreRefused) {
  const auto say = [this](std::uint64_t number) {
    side_->say(say_number(RemoteKind::received, number));
  };
  for (const std::uint64_t number :
       {std::uint64_t{4}, std::uint64_t{67}, std::uint64_t{1} << 63, ~std::uint64_t{0}})
    expect_refused(fmt::format("it has received message {}, of 0 to 3", number),
                   [&] { say(number); });
  expect_refused("it has received message 1, of 2 to 3", [&] { say(2), say(1); });
  expect_refused("it has received message 0, of 3 to 3", [&] { say(3), say(0); });
  expect_refused("it has received message 4, of 3 to 3", [&] { say(3), say(4); });
}

TEST_F(HostileReceiver, ANumberTwiceIsNoNews) {
  send(10, 1);
  EXPECT_EQ(hear_head().number, 1u);
  for (int i = 0; i < 3; ++i) side_->say(say_number(RemoteKind::received, 1));
  send(10, 2);
  EXPECT_EQ(hear_head().number, 2u);
}

TEST_F(HostileReceiver, ThatBeginsBeyondWhatWasSentIsRefused) {
  open(1);
  expect_ends_by(Code::peer_misbehaved, "it has received message 1, of 0 to 0");
}

TEST_F(HostileReceiver, TheEndIsNotReceivedBeforeItWasSaid) {
  expect_refused("it says what no receiving side says",
                 [this] { side_->say(say_number(RemoteKind::finished, 3)); });
  expect_refused("it says what no receiving side says", [this] {
    side_->say(say_number(RemoteKind::received, 3));
    side_->say(say_number(RemoteKind::finished, 3));
  });
}

// Else close() would say that all was received.
TEST_F(HostileReceiver, ThatStopsBecauseItIsClosedIsRefused) {
  expect_refused("it says what no receiving side says", [this] {
    side_->say(say_error(RemoteKind::stopped, {Code::closed, "all of it has been received", {}}));
  });
}

TEST_F(HostileReceiver, WhyItStopsIsWhyTheSessionEnds) {
  send(100'000, 1);
  EXPECT_EQ(hear_head().number, 1u);
  side_->say(say_error(RemoteKind::stopped, {Code::too_large, "no room", {}}));
  expect_ends_by(Code::too_large, "no room");
}

TEST_F(HostileReceiver, WhatNoReceivingSideSaysIsRefused) {
  const auto number = pattern(8, 1);
  for (const unsigned kind : {0u, 1u, 2u, 3u, 7u, 8u, 127u, 255u}) {
    const bool is_place = kind == static_cast<unsigned>(RemoteKind::place);
    const char* const words =
        is_place ? "it offers a place that cannot be" : "it says what no receiving side says";
    expect_refused(words, [&] { side_->say(record_of(kind)); });
    expect_refused(words, [&] { side_->say(record_of(kind, number)); });
  }
  const auto acknowledged = say_number(RemoteKind::received, 3);
  for (std::size_t size = 1; size < acknowledged.size(); ++size)
    expect_refused("it says what no receiving side says", [&] {
      side_->say({acknowledged.begin(), acknowledged.begin() + static_cast<long>(size)});
    });
  expect_refused("it says what no receiving side says", [&] {
    auto longer = acknowledged;
    longer.push_back({});
    side_->say(longer);
  });
  auto stopped = say_error(RemoteKind::stopped, {Code::peer_gone, "m", "h"});
  expect_refused("it says what no receiving side says",
                 [&] { side_->say({stopped.begin(), stopped.end() - 1}); });
  stopped[1] = std::byte{200};  // no such code
  expect_refused("it says what no receiving side says", [&] { side_->say(stopped); });
}

TEST_F(HostileReceiver, ReadsNothingOnceItHasAcknowledgedIt) {
  send(100'000, 1);
  send(100'000, 2);
  const RemoteHead first = hear_head();
  const RemoteHead second = hear_head();
  EXPECT_TRUE(same(fetch(first).value(), pattern(100'000, 1)));
  side_->say(say_number(RemoteKind::received, 1));
  send(100, 3);
  EXPECT_EQ(hear_head().number, 3u);  // so the acknowledgement was heard
  const auto again = fetch(first);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::not_found) << to_string(again.error());
  EXPECT_TRUE(same(fetch(second).value(), pattern(100'000, 2)));
}

TEST_F(HostileReceiver, WritesNothing) {
  send(100'000, 1);
  const RemoteHead head = hear_head();
  EXPECT_EQ(head.parts.at(0).region.access, RemoteAccess::read);
  RemoteRegion region = head.parts[0].region;
  region.access = RemoteAccess::read_write;
  const auto bytes = pattern(100'000, 9);
  auto ticket = side_->peer().put(Transfer::of(bytes, region));
  ASSERT_TRUE(ticket);
  expect_ends_by(Code::peer_misbehaved, "is not exported for that");
}

// It never acknowledges: the sender keeps 64, and holds up its producer.
TEST_F(HostileReceiver, ThatAcknowledgesNothingHoldsTheSenderUp) {
  const std::uint64_t most = SendingSide::kMostUnacknowledged;
  std::jthread sender([this] {
    for (std::uint64_t i = 1; i <= 2 * most; ++i) send(500, i);
  });
  for (std::uint64_t i = 1; i <= most; ++i) EXPECT_EQ(hear_head().number, i);
  EXPECT_TRUE(side_->hear(Deadline::after(std::chrono::milliseconds(50))).empty());
  std::vector<std::byte> payload;
  for (std::uint64_t i = most + 1; i <= 2 * most; ++i) {
    side_->say(say_number(RemoteKind::received, i - most));
    EXPECT_EQ(hear_head(&payload).number, i);
    EXPECT_TRUE(same(payload, pattern(500, i))) << i;
  }
}

// It listens to nothing and says the same again and again.
TEST_F(HostileReceiver, ThatOnlyTalksIsHeardWithoutHarm) {
  send(10, 1);
  EXPECT_EQ(hear_head().number, 1u);
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(side_->say(say_number(RemoteKind::received, 1)));
  send(2000, 2);
  std::vector<std::byte> payload;
  EXPECT_EQ(hear_head(&payload).number, 2u);
  EXPECT_TRUE(same(payload, pattern(2000, 2)));
}

TEST_F(HostileReceiver, RandomRecordsEndTheSession) {
  std::mt19937_64 random(test_seed(4));
  for (int round = 0; round < 60; ++round) {
    open();
    send(70'000, 1);
    EXPECT_EQ(hear_head().number, 1u);
    for (int i = 0; i < 200; ++i) {
      auto record = pattern(1 + random() % 20, random());
      record[0] = static_cast<std::byte>(random() % 9);
      if (!side_->say(record)) break;
    }
    side_->say(record_of(255));
    const RemoteEnd end = side_->end();
    EXPECT_EQ(end.kind, RemoteEnd::Kind::over) << round;
    EXPECT_NE(end.why.code, Code::closed) << round;
  }
}

}  // namespace
}  // namespace gantry
