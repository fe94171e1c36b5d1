#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <functional>
#include <gantry/call.hpp>
#include <optional>
#include <thread>

#include "core/base/test_lingering.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/status/inquiry.hpp"
#include "core/channel/test_raw_producer.hpp"

// Sockets that take as long to close as a hostile peer likes, longer than any of the waits here:
// wherever they are taken in, nobody who serves others closes them.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::Poisoned;
using test::RawProducer;
using test::same;
using test::soon;

class PoisonedSockets : public testing::Test {
 protected:
  Fd call(const std::string& file) {
    Fd socket = std::move(*connect_to(directory_.path(), file));
    accept_rights(socket.get(), true);
    return socket;
  }
  /// Of which the other end has the only copy afterwards.
  static void send(const Fd& socket, PacketKind kind, Poisoned& poisoned) {
    const int descriptor = poisoned.socket();
    RawProducer::say(socket, kind, std::span(&descriptor, 1), 1, 4096);
    poisoned.drop_own_copy();
  }
  void expect_served(Inbox& in) {
    auto honest = Producer::connect("in", options_, std::make_shared<test::PlainEngine>(), soon());
    ASSERT_TRUE(honest) << to_string(honest.error());
    ASSERT_TRUE(honest->send(pattern(1000, 3), soon()));
    const auto delivery = in.receive(soon());
    ASSERT_TRUE(delivery) << to_string(delivery.error());
    EXPECT_TRUE(same(delivery->message.bytes(), pattern(1000, 3)));
  }
  /// Somebody who listens under the channel's name, answers and leaves behind what nobody reads;
  /// but who asked may have hung up in between.
  void answer_one(const Claim& claim) {
    ASSERT_TRUE(*wait_readable(claim.listener(), soon()));
    const Fd socket(::accept4(claim.listener(), nullptr, nullptr, SOCK_CLOEXEC));
    static_cast<void>(receive_wire(socket.get(), soon()));
    RawProducer::say(socket, PacketKind::ready);  // nobody expects that
    is_left_behind_ = Poisoned::send_descriptor(socket.get(), lingering_.socket());
    if (is_left_behind_) lingering_.drop_own_copy();
    is_answered_.store(true);
    is_answered_.notify_one();
    static_cast<void>(wait_readable(socket.get(), soon()));  // until it hung up
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  test::Lingering lingering_;
  std::atomic<bool> is_answered_{false};
  bool is_left_behind_ = false;
};

TEST_F(PoisonedSockets, InThePlaceOfMemoryHoldUpNoInbox) {
  Poisoned poisoned(SOCK_SEQPACKET);
  auto in = *Inbox::open("in", {.channel = consumer_options(options_)});
  RawProducer hostile;
  const Fd socket = call("in.sock");
  hostile.join(socket);
  send(socket, PacketKind::slab, poisoned);
  hostile.publish(1, RawProducer::block(0, 0, 1000));  // has it look for slabs
  hostile.wake();
  expect_served(in);
}

TEST_F(PoisonedSockets, AsALineThatNobodyTakesHoldUpNoInbox) {
  Poisoned poisoned(SOCK_SEQPACKET);
  auto in = *Inbox::open("in", {.channel = consumer_options(options_)});
  {
    RawProducer hostile;
    const Fd socket = call("in.sock");
    hostile.join(socket);
    send(socket, PacketKind::control, poisoned);
    while (in.senders().empty()) static_cast<void>(in.receive(Deadline::now()));
    static_cast<void>(in.receive(Deadline::now()));
  }
  expect_served(in);
}

// What waits to be accepted is closed with the socket that listens, which knows its maker, too.
TEST_F(PoisonedSockets, ThatListenAreNoLines) {
  test::Lingering lingering;
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof(sa_family_t)), 0);
  socklen_t size = sizeof name;
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const Fd caller(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(caller.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_TRUE(Poisoned::send_descriptor(caller.get(), lingering.socket()));
  lingering.drop_own_copy();
  const PeerIdentity self = *peer_of(caller.get());
  auto line = adopt_control_end(std::move(listener), self);
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, Code::peer_misbehaved);
  EXPECT_EQ(line.error().message,
            "the descriptor of a control connection is not a connected SOCK_SEQPACKET socket");
}

TEST_F(PoisonedSockets, OutOfBandMakeNoWakeUpSender) {
  Poisoned poisoned(SOCK_STREAM, MSG_OOB);
  if (!poisoned.is_sent()) GTEST_SKIP() << "this kernel has no MSG_OOB for Unix sockets";
  Fd given(::fcntl(poisoned.socket(), F_DUPFD_CLOEXEC, 0));
  poisoned.drop_own_copy();
  const auto wake_sender = WakeSender::adopt(std::move(given));
  ASSERT_FALSE(wake_sender);
  EXPECT_EQ(wake_sender.error().code, Code::peer_misbehaved);
}

TEST_F(PoisonedSockets, HoldUpNobodyWhoJoinsThere) {
  const Claim claim = *Claim::take(directory_.path(), "frames");
  for (const Deadline patience = soon(); !is_left_behind_;) {
    ASSERT_FALSE(patience.passed()) << "it was never quick enough";
    std::thread hostile([&] { answer_one(claim); });
    const auto in = Consumer::open("frames", consumer_options(options_), soon());
    EXPECT_EQ(in.error().code, Code::peer_misbehaved);
    hostile.join();
  }
}

TEST_F(PoisonedSockets, HoldUpNobodyWhoAsksWhatIsThere) {
  const Claim claim = *Claim::take(directory_.path(), "frames");
  std::thread hostile([&] { answer_one(claim); });
  {
    Inquiry inquiry({}, std::move(*connect_to(directory_.path(), "frames.sock")));
    is_answered_.wait(false);
    inquire(std::span(&inquiry, 1), soon());
    EXPECT_FALSE(std::move(inquiry).finish().answered);
  }
  hostile.join();
  EXPECT_TRUE(is_left_behind_);
}

}  // namespace
}  // namespace gantry
