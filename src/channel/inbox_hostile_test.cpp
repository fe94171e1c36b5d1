#include <gmock/gmock.h>
#include <sys/socket.h>
#include <gantry/inbox.hpp>

#include <cstring>
#include <new>

#include "base/event.hpp"
#include "channel/format.hpp"
#include "channel/metrics_page.hpp"
#include "channel/protocol.hpp"
#include "channel/rendezvous.hpp"
#include "channel/test_support.hpp"

// Whoever comes to an inbox with nonsense, or with nothing, costs itself its place.
namespace gantry {
namespace {

using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class HostileCaller : public testing::Test {
 protected:
  HostileCaller() {
    options_.channel = channel_;
    options_.on_departure = [this](const Departure& one) { departed_.push_back(one); };
    inbox_.emplace(*Inbox::open("in", options_));
    auto* page = new (memory_.data()) ProducerPage{};
    page->magic = kProducerMagic;
    page->version = kFormatVersion;
    page->slots = 8;
    ring_ = new (ring_memory_.data()) RingPage{};
    ring_->magic = kRingMagic;
    ring_->version = kFormatVersion;
    ring_->cells = 16;
  }
  Fd call() {
    auto socket = connect_to(directory_.path(), "in.sock");
    while (!socket) socket = connect_to(directory_.path(), "in.sock");  // its queue was full
    return std::move(*socket);
  }
  static void say(const Fd& socket, PacketKind kind, std::span<const int> fds = {}) {
    WirePacket packet;
    packet.kind = kind;
    packet.purpose = Purpose::deliver;
    EXPECT_TRUE(send_wire(socket.get(), packet, fds));
  }
  Fd call_and_say_hello() {
    Fd socket = call();
    say(socket, PacketKind::hello);
    const auto hello = receive_wire(socket.get(), soon());
    EXPECT_TRUE(hello && !hello->closed && hello->packet.purpose == Purpose::join);
    return socket;
  }
  /// All the way in.
  Fd join() {
    Fd socket = call_and_say_hello();
    say(socket, PacketKind::welcome, welcome_);
    const auto joined = receive_wire(socket.get(), soon());
    EXPECT_TRUE(joined && joined->packet.kind == PacketKind::join && joined->fds.size() == 3);
    say(socket, PacketKind::ready);
    return socket;
  }
  void publish(std::uint32_t slab, std::uint16_t slot, Bytes offset, Bytes bytes) {
    MessageRecord made{};
    made.header = {
        .number = 1, .ticks = 0, .user = 0, .type = 0, .slot = slot, .kind = 1, .count = 1};
    const Place place{
        .offset = offset, .bytes = bytes, .slab = slab, .chunk_bytes = 0, .window_bytes = 0};
    std::memcpy(made.body.data(), &place, sizeof place);
    ring_->ring[1].record = made;
    ring_->ring[1].sequence = 1;
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
  ChannelOptions channel_ = options_in(directory_);
  InboxOptions options_;
  std::vector<Departure> departed_;
  std::optional<Inbox> inbox_;
  Region memory_ = *Region::create(shared_size(sizeof(ProducerPage)), "x");
  Region ring_memory_ = *Region::create(shared_size(sizeof(RingPage)), "x");
  Fd event_ = *make_event();
  Metrics metrics_ = *MetricsMaker::make_own();
  std::array<int, 4> welcome_{memory_.descriptor(), ring_memory_.descriptor(), event_.get(),
                              metrics_.descriptor()};
  RingPage* ring_ = nullptr;
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
    say(early, kind);
    EXPECT_TRUE(hung_up(early));
  }
  for (const PacketKind kind : {PacketKind::hello, PacketKind::ready, PacketKind::slab}) {
    const Fd late = call_and_say_hello();
    say(late, kind);
    EXPECT_TRUE(hung_up(late));
  }
  expect_unharmed();
}

TEST_F(HostileCaller, WrongDescriptorsLeaveNothing) {
  const Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  expect_unharmed();
  await_departure();
  const std::size_t before = test::open_descriptors();
  for (std::size_t bad = 0; bad < 3; ++bad) {
    const Fd socket = call_and_say_hello();
    auto fds = welcome_;
    fds[bad] = zero.get();
    say(socket, PacketKind::welcome, fds);
    EXPECT_TRUE(hung_up(socket)) << bad;
  }
  const Fd last = call();
  ASSERT_TRUE(send_packet(last.get(), pattern(5, 5)));
  EXPECT_TRUE(hung_up(last)) << "all before were seen";
  EXPECT_EQ(test::open_descriptors(), before + 1);
  expect_unharmed();
}

// More than it has places for: they make room.
TEST_F(HostileCaller, SilentCallersDoNotKeepOthersOut) {
  std::vector<Fd> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(call());
  for (int i = 0; i < 20; ++i) {
    silent.push_back(call());
    say(silent.back(), PacketKind::hello);
  }
  expect_unharmed();
}

TEST_F(HostileCaller, AThousandCallsLeaveNothing) {
  expect_unharmed();
  await_departure();
  const std::size_t before = test::open_descriptors();
  for (int i = 0; i < 1000; ++i) call();
  expect_unharmed();
  departed_.clear();
  await_departure();
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST_F(HostileCaller, NonsenseInARingCostsItsOwnerAlone) {
  const auto honest =
      Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), soon());
  const Fd socket = join();
  publish(1, 64, 0, 1);  // there is no such slot
  event_.reset();
  EXPECT_EQ(await_departure().why.code, Code::peer_misbehaved);
  EXPECT_TRUE(hung_up(socket));
  EXPECT_EQ(inbox_->senders().size(), 1u);
  expect_unharmed();
}

// An ordinary consumer would give the announcement time; an inbox has others to serve.
TEST_F(HostileCaller, MemoryThatWasNeverSentIsNotWaitedFor) {
  const Fd socket = join();
  publish(7, 0, 0, 4096);
  const auto started = std::chrono::steady_clock::now();
  const Departure one = await_departure();
  EXPECT_EQ(one.why.code, Code::peer_misbehaved);
  EXPECT_THAT(one.why.message, testing::HasSubstr("memory it never sent"));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(5))
      << "the time that an ordinary consumer waits";
}

TEST_F(HostileCaller, ARingOfTheWrongSizeNeverGetsIn) {
  ring_->cells = 3;
  const Fd socket = join();
  EXPECT_TRUE(hung_up(socket));
  expect_unharmed();
}

}  // namespace
}  // namespace gantry
