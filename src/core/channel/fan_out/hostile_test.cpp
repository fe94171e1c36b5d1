#include <gmock/gmock.h>
#include <sys/socket.h>

#include <functional>
#include <latch>
#include <new>
#include <thread>

#include "core/base/os/memfd.hpp"
#include "core/base/test_wakes.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_raw_consumer.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "core/channel/wire/protocol.hpp"

// A peer that breaks every rule it can: it costs itself the channel and nobody anything else.
namespace gantry {
namespace {

using test::consumer_options;
using test::impersonate;
using test::Impostor;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::soon;

// ---- hostile consumers ---------------------------------------------------------------------

class HostileConsumer : public testing::Test {
 protected:
  void SetUp() override {
    options_.slots = 2;
    out_.emplace(*make_producer("frames", options_));
  }
  Fd call() { return *connect_to(directory_.path(), "frames.sock"); }
  static void say(const Fd& socket, PacketKind kind, std::span<const int> fds = {},
                  Purpose purpose = Purpose::join) {
    WirePacket packet;
    packet.kind = kind;
    packet.purpose = purpose;
    ASSERT_TRUE(send_wire(socket.get(), packet, fds));
  }
  Received welcome(const Fd& socket) {
    say(socket, PacketKind::hello);
    return *expect(*receive_wire(socket.get(), soon()), PacketKind::welcome, 3);
  }
  /// The channel still serves an honest consumer.
  void expect_unharmed() {
    auto in = Consumer::open("frames", consumer_options(options_), soon());
    ASSERT_TRUE(in) << in.error().message;
    ASSERT_TRUE(out_->send(pattern(100, 1), soon()));
    EXPECT_TRUE(test::same(in->receive(soon())->bytes(), pattern(100, 1)));
  }
  static bool hung_up(const Fd& socket) {
    const auto received = receive_wire(socket.get(), soon());
    return received && received->closed;
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
};

TEST_F(HostileConsumer, GarbageIsHungUpOn) {
  for (const Bytes size : {1ul, 63ul, sizeof(WirePacket), 65ul, 4000ul}) {
    const Fd socket = call();
    ASSERT_TRUE(send_packet(socket.get(), pattern(size, size)));
    EXPECT_TRUE(hung_up(socket)) << size;
  }
  expect_unharmed();
}

TEST_F(HostileConsumer, JoiningOutOfTurnIsHungUpOn) {
  const Fd early = call();
  say(early, PacketKind::join);
  EXPECT_TRUE(hung_up(early));
  const Fd twice = call();
  welcome(twice);
  say(twice, PacketKind::hello);
  EXPECT_TRUE(hung_up(twice));
  const Fd backwards = call();
  say(backwards, PacketKind::ready);
  EXPECT_TRUE(hung_up(backwards));
  expect_unharmed();
}

TEST_F(HostileConsumer, WrongDescriptorsAreRefused) {
  const WakeReceiver::Made wake_receiver = *WakeReceiver::make();
  const int wake_sender = wake_receiver.wake_sender.descriptor();
  const test::NoWakes none(directory_.path());
  const Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  const auto metrics = *MetricsMaker::make_own();
  const auto page = *Region::create(shared_size(sizeof(ConsumerPage)), "x");  // of zeros: no magic
  const auto sound = *Region::create(shared_size(sizeof(ConsumerPage)), "x");
  test::make_consumer_page(sound);
  std::vector<std::vector<int>> sets{
      {},
      {wake_sender},
      {zero.get(), wake_sender, metrics.descriptor()},
      {sound.descriptor(), wake_sender, zero.get()},
      {page.descriptor(), wake_sender, metrics.descriptor()},
      {sound.descriptor(), wake_sender, metrics.descriptor(), zero.get()}};
  for (const int wrong : none.descriptors())
    sets.push_back({sound.descriptor(), wrong, metrics.descriptor()});
  const std::size_t before = test::open_descriptors();
  for (const auto& fds : sets) {
    const Fd socket = call();
    welcome(socket);
    say(socket, PacketKind::join, fds);
    EXPECT_TRUE(hung_up(socket)) << fds.size();
  }
  // The acceptor hears one caller after the other: once this one is hung up on, all are done with,
  // but for what a thread of its own closes.
  const Fd last = call();
  ASSERT_TRUE(send_packet(last.get(), pattern(5, 5)));
  EXPECT_TRUE(hung_up(last));
  while (test::open_descriptors() > before + 1) std::this_thread::yield();
  expect_unharmed();
}

TEST_F(HostileConsumer, SilentCallersDoNotKeepOthersOut) {
  std::vector<Fd> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(call());
  expect_unharmed();
}

TEST_F(HostileConsumer, AThousandCallsLeaveNothing) {
  const std::size_t before = test::open_descriptors();
  for (int i = 0; i < 1000; ++i) {
    auto socket = connect_to(directory_.path(), "frames.sock");
    while (!socket) socket = connect_to(directory_.path(), "frames.sock");  // its queue was full
  }
  expect_unharmed();
  EXPECT_LE(test::open_descriptors(), before + 16);
}

TEST_F(HostileConsumer, ImpossibleProgressIsFoundOut) {
  Fd socket = call();
  welcome(socket);
  Impostor impostor = impersonate(std::move(socket));
  ASSERT_TRUE(out_->send(pattern(100, 1), soon()));
  impostor.page().taken = 77;  // of one message
  Result<void> sent;           // it is looked at when the credits that are known are used up
  for (unsigned more = 0; sent && more < options_.slots; ++more)
    sent = out_->send(pattern(100, 2), soon());
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::peer_misbehaved);
  EXPECT_EQ(out_->send(pattern(1, 2), soon()).error().code, Code::peer_misbehaved);
}

TEST_F(HostileConsumer, ReleasesOfWhatWasNeverSentFreeNothing) {
  Fd socket = call();
  welcome(socket);
  Impostor impostor = impersonate(std::move(socket));
  ASSERT_TRUE(out_->send(pattern(100, 1), soon()));
  ASSERT_TRUE(out_->send(pattern(100, 2), soon()));
  impostor.page().taken = 2;
  for (std::size_t slot = 0; slot < kMaxSlots; ++slot) impostor.page().released.release(slot, 99);
  EXPECT_EQ(out_->send(pattern(100, 3), Deadline::now()).error().code, Code::timed_out);
  impostor.page().released.release(0, 1);
  EXPECT_TRUE(out_->send(pattern(100, 3), Deadline::now()));
}

// What it gave back without having taken it is nobody's any more: its successor must not get it.
TEST_F(HostileConsumer, WhatItReleasedUntakenIsNotHandedOn) {
  {
    Fd socket = call();
    welcome(socket);
    Impostor impostor = impersonate(std::move(socket));
    ASSERT_TRUE(out_->send(pattern(100, 1), soon()));
    ASSERT_TRUE(out_->send(pattern(100, 2), soon()));
    impostor.page().released.release(0, 1);
  }
  Result<void> sent;
  while (sent) sent = out_->send(pattern(1, 3), soon());  // until it is noticed
  auto in = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(in);
  const auto message = in->receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_EQ(message->info().sequence, 2u);
  EXPECT_TRUE(test::same(message->bytes(), pattern(100, 2)));
}

/// A consumer from whom the oldest is to be taken back, and an honest one beside it.
class HostileDropper : public HostileConsumer {
 protected:
  void SetUp() override {
    options_.slots = 4;
    options_.consumers = 2;
    out_.emplace(*make_producer("frames", options_));
    Fd socket = call();
    welcome(socket);
    impostor_.emplace(impersonate(std::move(socket), SlowConsumer::drop_oldest, depth_));
    in_.emplace(*Consumer::open("frames", consumer_options(options_), soon()));
  }
  void expect_delivered(std::uint64_t seed) {
    ASSERT_TRUE(out_->send(pattern(100, seed), soon()));
    const auto message = in_->receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_TRUE(test::same(message->bytes(), pattern(100, seed)));
  }
  ConsumerStatus status() { return out_->explain(100).status.consumers.at(0); }
  bool is_cut_off() {
    for (;;) {  // news of slabs come first
      const auto received = receive_wire(impostor_->socket.get(), soon());
      if (!received || received->closed) return received.has_value();
    }
  }

  unsigned depth_ = 2;
  std::optional<Impostor> impostor_;
  std::optional<Consumer> in_;
};

class HostileDeepDropper : public HostileDropper {
 protected:
  HostileDeepDropper() { depth_ = 4; }
};

// The slot of what it released untaken is lent again; taking the old message back frees it not.
TEST_F(HostileDeepDropper, TakingBackFreesOnlyWhatIsLentForThatMessage) {
  for (std::uint64_t i = 1; i <= 4; ++i) expect_delivered(i);
  impostor_->page().released.release(0, 1);
  expect_delivered(5);
  const auto held = status().held;
  ASSERT_EQ(held.size(), 4u);
  EXPECT_EQ(held.back().message, 5u);
}

TEST_F(HostileDropper, ImpossibleProgressCostsItTheChannel) {
  for (std::uint64_t i = 1; i <= 4; ++i) expect_delivered(i);
  impostor_->page().taken = 99;
  for (std::uint64_t i = 5; i <= 8; ++i) expect_delivered(i);
  EXPECT_TRUE(is_cut_off());
}

TEST_F(HostileDropper, GoingBackwardsCostsItTheChannel) {
  for (std::uint64_t i = 1; i <= 4; ++i) expect_delivered(i);
  impostor_->page().taken = 4;
  expect_delivered(5);
  impostor_->page().taken = 3;
  for (std::uint64_t i = 6; i <= 9; ++i) expect_delivered(i);
  EXPECT_TRUE(is_cut_off());
}

TEST_F(HostileDropper, ClaimingAllAndReleasingNothingKeepsItsShareOnly) {
  for (std::uint64_t i = 1; i <= 40; ++i) {
    expect_delivered(i);
    impostor_->page().taken = std::min<std::uint64_t>(i, 3);
  }
  EXPECT_EQ(status().held.size(), 3u) << "its depth and one more";
  EXPECT_EQ(status().dropped, 37u);
}

TEST_F(HostileDropper, ReleasingWhatItDidNotTakeFreesOnlyThat) {
  for (std::uint64_t i = 1; i <= 40; ++i) {
    expect_delivered(i);
    for (std::size_t slot = 0; slot < kMaxSlots; ++slot)
      impostor_->page().released.release(slot, i - i % 2);
  }
  EXPECT_LE(out_->explain(100).status.slots_held, 2u);
}

TEST_F(HostileDropper, ItsCountIsBelievedOfItselfAndOnlyAsFarAsItCanBe) {
  for (std::uint64_t i = 1; i <= 10; ++i) expect_delivered(i);
  EXPECT_EQ(status().dropped, 8u);
  impostor_->page().missed = 1;
  EXPECT_EQ(status().dropped, 8u);
  impostor_->page().missed = ~std::uint64_t{0};
  EXPECT_EQ(status().dropped, 10u);
}

TEST_F(HostileConsumer, AnUnknownPolicyIsRefused) {
  const Fd socket = call();
  welcome(socket);
  const WakeReceiver::Made wake_receiver = *WakeReceiver::make();
  const auto metrics = *MetricsMaker::make_own();
  const auto page = *Region::create(shared_size(sizeof(ConsumerPage)), "x");
  test::make_consumer_page(page);
  WirePacket packet;
  packet.kind = PacketKind::join;
  packet.held = static_cast<std::uint32_t>(SlowConsumer::drop_oldest) + 1;
  const std::array<int, 3> fds{page.descriptor(), wake_receiver.wake_sender.descriptor(),
                               metrics.descriptor()};
  ASSERT_TRUE(send_wire(socket.get(), packet, fds));
  EXPECT_TRUE(hung_up(socket));
  expect_unharmed();
}

TEST_F(HostileConsumer, TalkingAfterJoiningEndsTheChannelCleanly) {
  Fd socket = call();
  welcome(socket);
  Impostor impostor = impersonate(std::move(socket));
  say(impostor.socket, PacketKind::hello);
  const auto sent = out_->send(pattern(8, 1), soon());  // before or after it was noticed
  const auto told = sent ? out_->close(soon()) : sent;
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Code::peer_gone);
}

}  // namespace
}  // namespace gantry
