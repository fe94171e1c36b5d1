#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <gantry/call.hpp>

#include <thread>

#include "core/base/event.hpp"
#include "core/base/test_wakes.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_raw_producer.hpp"

// Whoever comes to an inbox with nonsense, or with nothing, costs itself its place.
namespace gantry {
namespace {

using test::consumer_options;
using test::options_in;
using test::pattern;
using test::RawProducer;
using test::same;
using test::soon;

class HostileCaller : public testing::Test {
 protected:
  HostileCaller() {
    options_.channel = consumer_options(channel_);
    options_.on_departure = [this](const Departure& one) { departed_.push_back(one); };
    inbox_.emplace(*Inbox::open("in", options_));
  }
  Fd call() {
    auto socket = connect_to(directory_.path(), "in.sock");
    while (!socket) socket = connect_to(directory_.path(), "in.sock");  // its queue was full
    return std::move(*socket);
  }
  Fd call_and_say_hello() {
    Fd socket = call();
    RawProducer::greet(socket);
    return socket;
  }
  Fd join() {
    Fd socket = call();
    raw_.join(socket);
    return socket;
  }
  static bool hung_up(const Fd& socket) {
    const auto received = receive_wire(socket.get(), soon());
    return received && received->closed;
  }
  void expect_unharmed() {
    auto out = Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), soon());
    ASSERT_TRUE(out) << out.error().message;
    ASSERT_TRUE(out->send(pattern(100, 1), soon()));
    const auto got = inbox_->receive(soon());
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(same(got->message.bytes(), pattern(100, 1)));
  }
  Departure await_departure() {
    while (departed_.empty())
      if (inbox_->receive(Deadline::now()).has_value()) ADD_FAILURE() << "a message out of it";
    return departed_.back();
  }

  test::ScratchDirectory directory_;
  ProducerOptions channel_ = options_in(directory_);
  InboxOptions options_;
  std::vector<Departure> departed_;
  std::optional<Inbox> inbox_;
  RawProducer raw_;
};

TEST_F(HostileCaller, GarbageIsHungUpOn) {
  for (const Bytes size : {1ul, 63ul, sizeof(WirePacket), 65ul, 4000ul}) {
    const Fd socket = call();
    ASSERT_TRUE(send_packet(socket.get(), pattern(size, size)));
    EXPECT_TRUE(hung_up(socket)) << size;
  }
  expect_unharmed();
}

TEST_F(HostileCaller, PacketsOutOfTurnAreHungUpOn) {
  for (const PacketKind kind : {PacketKind::welcome, PacketKind::ready, PacketKind::slab}) {
    const Fd early = call();
    RawProducer::say(early, kind);
    EXPECT_TRUE(hung_up(early));
  }
  for (const PacketKind kind : {PacketKind::hello, PacketKind::ready, PacketKind::slab}) {
    const Fd late = call_and_say_hello();
    RawProducer::say(late, kind);
    EXPECT_TRUE(hung_up(late));
  }
  expect_unharmed();
}

TEST_F(HostileCaller, WrongDescriptorsLeaveNothing) {
  const Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  const test::NoWakes none(directory_.path());
  expect_unharmed();
  await_departure();
  const std::size_t before = test::descriptors_at_rest();
  for (std::size_t bad = 0; bad < 3; ++bad) {
    const Fd socket = call_and_say_hello();
    auto fds = raw_.welcome();
    fds[bad] = zero.get();
    RawProducer::say(socket, PacketKind::welcome, fds);
    EXPECT_TRUE(hung_up(socket)) << bad;
  }
  for (const int no_wake_sender : none.descriptors()) {
    const Fd socket = call_and_say_hello();
    auto fds = raw_.welcome();
    fds[2] = no_wake_sender;
    RawProducer::say(socket, PacketKind::welcome, fds);
    EXPECT_TRUE(hung_up(socket)) << no_wake_sender;
  }
  const Fd last = call();
  ASSERT_TRUE(send_packet(last.get(), pattern(5, 5)));
  EXPECT_TRUE(hung_up(last)) << "all before were seen";
  EXPECT_EQ(test::descriptors_at_rest(), before + 1);
  expect_unharmed();
}

// More than it has places for: they make room.
TEST_F(HostileCaller, SilentCallersDoNotKeepOthersOut) {
  std::vector<Fd> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(call());
  for (int i = 0; i < 20; ++i) {
    silent.push_back(call());
    RawProducer::say(silent.back(), PacketKind::hello);
  }
  expect_unharmed();
}

TEST_F(HostileCaller, AThousandCallsLeaveNothing) {
  expect_unharmed();
  await_departure();
  const std::size_t before = test::descriptors_at_rest();
  for (int i = 0; i < 1000; ++i) call();
  expect_unharmed();
  departed_.clear();
  await_departure();
  EXPECT_LE(test::descriptors_at_rest(), before);
}

TEST_F(HostileCaller, NonsenseInARingCostsItsOwnerAlone) {
  const auto honest =
      Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), soon());
  const Fd socket = join();
  raw_.publish(1, RawProducer::block(1, 64, 1));  // there is no such slot
  const Departure one = await_departure();
  EXPECT_EQ(one.why.code, Code::peer_misbehaved);
  EXPECT_THAT(one.why.message, testing::HasSubstr("slot"));
  EXPECT_TRUE(hung_up(socket));
  EXPECT_EQ(inbox_->senders().size(), 1u);
  expect_unharmed();
}

// An ordinary consumer would give the announcement time; an inbox has others to serve.
TEST_F(HostileCaller, MemoryThatWasNeverSentIsNotWaitedFor) {
  const Fd socket = join();
  raw_.publish(1, RawProducer::block(7, 0, 4096));
  const auto started = std::chrono::steady_clock::now();
  const Departure one = await_departure();
  EXPECT_EQ(one.why.code, Code::peer_misbehaved);
  EXPECT_THAT(one.why.message, testing::HasSubstr("memory it never sent"));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(5))
      << "the time that an ordinary consumer waits";
}

// What one sends without end costs it its place, and leaves the others their descriptors.
TEST_F(HostileCaller, SlabsWithoutEndCostNobodyElseAnything) {
  const std::size_t before = test::open_descriptors();
  InboxOptions few = options_;
  few.total.slabs = 80;
  few.producers = 4;
  inbox_.reset();
  inbox_.emplace(*Inbox::open("in", few));
  {
    const Fd socket = join();
    const Region slab = *Region::create(4096, "x");
    const int descriptor = slab.descriptor();
    for (std::uint32_t number = 1; number <= 100; ++number)
      RawProducer::say(socket, PacketKind::slab, std::span(&descriptor, 1), number, 4096);
    const Departure one = await_departure();
    EXPECT_EQ(one.why.code, Code::too_large);
    EXPECT_THAT(one.why.hint, testing::HasSubstr("ReceiveLimits::slabs"));
    EXPECT_LT(test::open_descriptors(), before + 40) << "what it sent is closed";
  }
  expect_unharmed();
}

TEST_F(HostileCaller, AnEndlessStreamedMessageIsNotGathered) {
  const Fd socket = join();
  Region slab = *Region::create(8192, "x");
  ASSERT_TRUE(slab.touch(0, 8192));
  const int descriptor = slab.descriptor();
  RawProducer::say(socket, PacketKind::slab, std::span(&descriptor, 1), 1, 8192);
  MessageRecord record = RawProducer::block(1, 0, 0);
  record.header.kind |= kLanding | kStreamed;
  const Place place{
      .offset = 0, .bytes = Bytes{1} << 60, .slab = 1, .chunk_bytes = 4096, .window_bytes = 8192};
  std::memcpy(record.body.data(), &place, sizeof place);
  raw_.publish(1, record);
  const Departure one = await_departure();
  EXPECT_EQ(one.why.code, Code::too_large);
  EXPECT_THAT(one.why.hint, testing::HasSubstr("ReceiveLimits::gathered_bytes"));
  expect_unharmed();
}

TEST_F(HostileCaller, ARingOfTheWrongSizeNeverGetsIn) {
  raw_.ring_page().cells = 3;
  const Fd socket = join();
  EXPECT_TRUE(hung_up(socket));
  expect_unharmed();
}

// Messages that are given up, without end: there is always something, and never anything to take.
TEST_F(HostileCaller, AFloodOfNothingKeepsNobodyBeyondTheDeadline) {
  auto honest = *Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), soon());
  const Fd socket = join();
  while (inbox_->senders().size() < 2) static_cast<void>(inbox_->receive(Deadline::now()));
  const int event = *inbox_->event_descriptor();
  const Region slab = *Region::create(4096, "x");
  const int descriptor = slab.descriptor();
  RawProducer::say(socket, PacketKind::slab, std::span(&descriptor, 1), 1, 4096);
  raw_.page().landing[0].begin(1);
  raw_.page().landing[0].word = LandingWord::kAborted;
  MessageRecord record = RawProducer::block(1, 0, 4096);
  record.header.kind |= kLanding;
  std::atomic<bool> enough{false};
  std::thread flood([&] { raw_.flood(record, enough); });
  for (int i = 0; i < 3; ++i) {
    const auto got = inbox_->receive(Deadline::after(std::chrono::milliseconds(1)));
    EXPECT_EQ(got ? Code::closed : got.error().code, Code::timed_out);
    EXPECT_TRUE(*wait_readable(event, soon())) << "a loop would look again";
  }
  ASSERT_TRUE(honest.send(pattern(100'000, 1), soon()));
  const auto got = inbox_->receive(soon());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(same(got->message.bytes(), pattern(100'000, 1)));
  enough = true;
  flood.join();
}

// It rang before the call, more often than a late call looks.
TEST_F(HostileCaller, RingsThatLieThereKeepNobodyBeyondTheDeadline) {
  const Fd socket = join();
  while (inbox_->senders().empty()) static_cast<void>(inbox_->receive(Deadline::now()));
  EXPECT_EQ(inbox_->receive(Deadline::now()).error().code, Code::timed_out);
  const std::array<char, 4096> rings{};
  while (::send(raw_.consumer_wake(), rings.data(), rings.size(), MSG_DONTWAIT) > 0) continue;
  EXPECT_EQ(inbox_->receive(Deadline::now()).error().code, Code::timed_out);
  int left = 0;
  ASSERT_EQ(::ioctl(raw_.consumer_wake(), SIOCOUTQ, &left), 0);
  EXPECT_GT(left, 0) << "it looked as long as there was something to look at";
  expect_unharmed();
}

// It is left out of the epoll after a while, then looked at again; so it is late, and not lost.
TEST_F(HostileCaller, WhoRingsForNothingIsNotListenedToForAWhile) {
  const Fd socket = join();
  while (inbox_->senders().empty()) static_cast<void>(inbox_->receive(Deadline::now()));
  const std::array<char, 4096> rings{};
  while (::send(raw_.consumer_wake(), rings.data(), rings.size(), MSG_DONTWAIT) > 0) continue;
  constexpr unsigned kCalls = 100;  // each of which would take in as many as a late call may
  for (unsigned i = 0; i < kCalls; ++i)
    EXPECT_EQ(inbox_->receive(Deadline::now()).error().code, Code::timed_out);
  int left = 0;
  ASSERT_EQ(::ioctl(raw_.consumer_wake(), SIOCOUTQ, &left), 0);
  ASSERT_GT(left, 0) << "it was listened to all the time";
  for (unsigned i = 0; i < 5; ++i) {
    ASSERT_TRUE(*wait_readable(*inbox_->event_descriptor(), soon())) << "a mute ends by itself";
    EXPECT_EQ(inbox_->receive(Deadline::now()).error().code, Code::timed_out);
  }
  expect_unharmed();
}

// An honest producer turns away itself; this one does not look at the inbox's token.
TEST_F(HostileCaller, WithoutTheTokenItDoesNotGetIn) {
  options_.channel.access.token = "sesame";
  inbox_.reset();
  inbox_.emplace(*Inbox::open("in", options_));
  const Fd socket = call();
  RawProducer::say(socket, PacketKind::hello);
  const auto answer = receive_wire(socket.get(), soon());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->packet.kind, PacketKind::refused);
  EXPECT_EQ(answer->packet.reason, static_cast<std::uint32_t>(Code::permission_denied));
  EXPECT_TRUE(hung_up(socket));
}

// One that dies when it has greeted: whoever came to it finds its successor.
TEST_F(HostileCaller, AnInboxThatGreetsAndIsGoneIsNotTheLast) {
  inbox_.reset();
  Fd listener = *listen_at(directory_.path(), "in.sock");
  std::thread dying([&] {
    EXPECT_TRUE(*wait_readable(listener.get(), soon()));
    const Fd caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(receive_wire(caller.get(), soon()));
    listener.reset();
    inbox_.emplace(*Inbox::open("in", options_));
    ::shutdown(caller.get(), SHUT_RD);  // whatever is said to it fails
    WirePacket hello;
    hello.kind = PacketKind::hello;
    hello.purpose = Purpose::join;
    EXPECT_TRUE(send_wire(caller.get(), hello));
  });
  const auto out = Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), soon());
  dying.join();
  ASSERT_TRUE(out) << out.error().message;
  expect_unharmed();
}

// It says that it sleeps, and its wake-up socket is full and would have a writer wait; then it is
// gone. An honest one's messages come through the whole time, and then the inbox sleeps.
TEST_F(HostileCaller, WhatItDoesToItsWakeSenderHoldsNobodyUp) {
  auto honest = *Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), soon());
  const Fd socket = join();
  test::fill_and_block(raw_.wake_sender());
  MessageRecord record{};
  record.header.slot = kNoSlot;
  for (std::uint64_t i = 1; i <= 200; ++i) {
    raw_.page().producer_sleeps.announce();
    record.header.number = i;
    raw_.publish(i, record);
    raw_.wake();
    ASSERT_TRUE(honest.send(pattern(8, i), soon()));
    ASSERT_TRUE(inbox_->receive(soon()));
    ASSERT_TRUE(inbox_->receive(soon()));
    raw_.page().producer_sleeps.withdraw();
  }
  const int event = *inbox_->event_descriptor();
  raw_.drop_wake();
  EXPECT_EQ(inbox_->receive(Deadline::now()).error().code, Code::timed_out);
  EXPECT_FALSE(would_pass(event, POLLIN));
  EXPECT_EQ(inbox_->senders().size(), 2u);
}

// It sends a control connection though nobody asked for one: a descriptor, and no more.
TEST_F(HostileCaller, LinesThatNobodyAskedForCostADescriptor) {
  const Fd socket = join();
  const ControlPair control = *make_control_pair();
  const int descriptor = control.theirs.get();
  RawProducer::say(socket, PacketKind::control, std::span(&descriptor, 1));
  while (inbox_->senders().empty()) static_cast<void>(inbox_->receive(Deadline::now()));
  EXPECT_EQ(inbox_->receive(Deadline::now()).error().code, Code::timed_out);
  EXPECT_TRUE(departed_.empty());
  RawProducer::say(socket, PacketKind::control, std::span(&descriptor, 1));
  const Departure one = await_departure();
  EXPECT_EQ(one.why.code, Code::peer_misbehaved);
  EXPECT_THAT(one.why.message, testing::HasSubstr("unexpected packet"));
  expect_unharmed();
}

}  // namespace
}  // namespace gantry
