#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <functional>
#include <latch>
#include <new>
#include <thread>

#include "base/memfd.hpp"
#include "base/test_wakes.hpp"
#include "base/wake.hpp"
#include "channel/consumer/received_slabs.hpp"
#include "channel/naming/rendezvous.hpp"
#include "channel/test_support.hpp"
#include "channel/wire/format.hpp"
#include "channel/wire/protocol.hpp"

// A peer that breaks every rule it can: it costs itself the channel and nobody anything else.
namespace gantry {
namespace {

using test::consumer_options;
using test::options_in;
using test::soon;

// ---- hostile producers ---------------------------------------------------------------------

/// Listens under the channel's name and plays a producer by hand.
class HostileProducer : public testing::Test {
 protected:
  HostileProducer() {
    page_->magic = kProducerMagic;
    page_->version = kFormatVersion;
    page_->slots = 8;
    ring_->magic = kRingMagic;
    ring_->version = kFormatVersion;
    ring_->cells = 16;
  }
  /// Serves one consumer, then calls `mischief`, which may wait for `first_held_`.
  template <class Mischief>
  Result<Message> receive_from(Mischief mischief, std::optional<Message>* hold_first = nullptr) {
    std::thread serving([&] {
      const Fd socket = accept_one();
      socket_ = socket.get();
      const auto hello = receive_wire(socket.get(), soon());
      const std::array<int, 3> fds{memory_.descriptor(), ring_memory_.descriptor(), pull_};
      send(PacketKind::welcome, fds);
      const auto join = receive_wire(socket.get(), soon());
      if (!join || join->closed) return;
      send(PacketKind::ready);
      mischief();
      const auto end = receive_wire(socket.get(), soon());  // until the consumer leaves
    });
    Result<Message> message = tl::unexpected(Error{});
    {
      auto in = Consumer::open("frames", options_, soon());
      if (hold_first != nullptr) {
        if (in)
          if (auto first = in->receive(soon())) *hold_first = std::move(*first);
        first_held_.count_down();
      }
      if (in)
        message = in->receive(soon());
      else
        message = tl::unexpected(in.error());
    }
    serving.join();
    return message;
  }
  Code code_from(std::function<void()> mischief) {
    const auto message = receive_from(std::move(mischief));
    return message ? Code::closed : message.error().code;
  }
  void send(PacketKind kind, std::span<const int> fds = {}, std::uint32_t slab = 0,
            Bytes bytes = 0) {
    WirePacket packet;
    packet.kind = kind;
    packet.slab = slab;
    packet.bytes = bytes;
    EXPECT_TRUE(send_wire(socket_, packet, fds));
  }
  void send_slab(std::uint32_t slab, const Region& region, Bytes bytes) {
    const int descriptor = region.descriptor();
    send(PacketKind::slab, std::span(&descriptor, 1), slab, bytes);
  }
  void publish(const MessageRecord& record) {
    ring_->ring[1].record = record;
    ring_->ring[1].sequence = 1;
  }
  static MessageRecord record(std::uint32_t slab, std::uint16_t slot, Bytes offset, Bytes bytes,
                              std::uint8_t kind = 1, std::uint8_t count = 1) {
    MessageRecord made{};
    made.header = {
        .number = 1, .ticks = 0, .user = 0, .type = 0, .slot = slot, .kind = kind, .count = count};
    const Place place{
        .offset = offset, .bytes = bytes, .slab = slab, .chunk_bytes = 0, .window_bytes = 0};
    std::memcpy(made.body.data(), &place, sizeof place);
    return made;
  }
  static MessageRecord beside(std::uint32_t place, std::uint32_t bytes) {
    MessageRecord made = record(0, kNoSlot, 0, 0, 3);
    const BesidePlace at{place, bytes};
    std::memcpy(made.body.data(), &at, sizeof at);
    return made;
  }

  Fd accept_one() {
    EXPECT_TRUE(*wait_readable(claim_.listener(), soon()));
    Fd socket(::accept4(claim_.listener(), nullptr, nullptr, SOCK_CLOEXEC));
    accept_rights(socket.get(), true);
    return socket;
  }

  test::ScratchDirectory directory_;
  ConsumerOptions options_ = [this] {
    auto options = consumer_options(options_in(directory_));
    options.spin = std::chrono::seconds(30);  // sees the page change without being rung
    return options;
  }();
  Claim claim_ = *Claim::take(directory_.path(), "frames");
  Region memory_ = *Region::create(shared_size(sizeof(ProducerPage)), "x");
  Region ring_memory_ = *Region::create(shared_size(sizeof(RingPage)), "x");
  Region slab_ = *Region::create(8192, "x");
  WakeReceiver::Made wake_receiver_ = *WakeReceiver::make();
  int pull_ = wake_receiver_.wake_sender.descriptor();
  ProducerPage* page_ = new (memory_.data()) ProducerPage{};
  RingPage* ring_ = new (ring_memory_.data()) RingPage{};
  int socket_ = -1;
  std::latch first_held_{1};  // the consumer has what receive_from() was told to hold
};

TEST_F(HostileProducer, AnHonestMessageByHandIsReceived) {
  const auto message = receive_from([this] {
    send_slab(1, slab_, 8192);
    publish(record(1, 0, 4096, 4096));
  });
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_EQ(message->bytes().size(), 4096u);
}

// Whatever becomes of the place: who received it has the bytes that were there.
TEST_F(HostileProducer, AMessageBesideItsRecordChangesNoMoreOnceReceived) {
  const auto payload = test::pattern(kBesideBytes, 1);
  const auto message = receive_from([&] {
    std::ranges::copy(payload, ring_->beside[kBesidePlaces - 1].begin());
    publish(beside(kBesidePlaces - 1, kBesideBytes));
  });
  ASSERT_TRUE(message) << message.error().message;
  std::ranges::fill(ring_->beside[kBesidePlaces - 1], std::byte{0});
  EXPECT_TRUE(test::same(message->bytes(), payload));
}

TEST_F(HostileProducer, MessagesOutsideTheirSlabAreNotBelieved) {
  const std::vector<MessageRecord> records{record(1, 0, 0, 8193),
                                           record(1, 0, 8192, 1),
                                           record(1, 0, ~0ull, 2),
                                           record(1, 0, 1, ~0ull),
                                           record(1, 64, 0, 1),
                                           record(1, kNoSlot, 0, 1),
                                           record(0, kNoSlot, 0, 65, 0, 65),
                                           record(1, 0, 0, 1, 4),
                                           record(1, 0, 0, 1, 0x13),
                                           record(1, 0, 0, 1, 0x23),
                                           beside(kBesidePlaces, 1),
                                           beside(~0u, 1),
                                           beside(0, kBesideBytes + 1),
                                           beside(0, ~0u),
                                           record(1, 0, 0, 1, 0x80),
                                           record(1, 0, 0, 1, 0x21),
                                           record(1, 0, 0, 1, 0x31),
                                           record(1, 0, 0, 1, 2),
                                           record(1, 0, 0, 0, 2, 0),
                                           record(1, 0, 0, Bytes{65} * 160, 2, 65)};
  for (const MessageRecord& bad : records) {
    ring_->ring[1].sequence = 0;
    EXPECT_EQ(code_from([&] {
                send_slab(1, slab_, 8192);
                publish(bad);
              }),
              Code::peer_misbehaved);
  }
}

TEST_F(HostileProducer, MemoryThatCouldChangeIsNotMapped) {
  const Fd unsealed(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_EQ(code_from([&] {
              const int descriptor = unsealed.get();
              send(PacketKind::slab, std::span(&descriptor, 1), 1, 8192);
              publish(record(1, 0, 0, 1));
            }),
            Code::peer_misbehaved);
}

TEST_F(HostileProducer, SlabsOfAnotherSizeTwiceOrWithoutMemoryAreRefused) {
  EXPECT_EQ(code_from([&] {
              send_slab(1, slab_, 16384);
              publish(record(1, 0, 0, 1));
            }),
            Code::peer_misbehaved);
  ring_->ring[1].sequence = 0;
  EXPECT_EQ(code_from([&] {
              send_slab(1, slab_, 8192);
              send_slab(1, slab_, 8192);
              publish(record(1, 0, 0, 1));
            }),
            Code::peer_misbehaved);
  ring_->ring[1].sequence = 0;
  EXPECT_EQ(code_from([&] {
              send(PacketKind::slab, {}, 1, 8192);
              publish(record(1, 0, 0, 1));
            }),
            Code::peer_misbehaved);
}

TEST_F(HostileProducer, MemoryUnderAHeldMessageStays) {
  Region other = *Region::create(4096, "x");
  ring_->ring[2].record = record(2, 1, 0, 1);
  std::optional<Message> held;
  const auto next = receive_from(
      [&] {
        send_slab(1, slab_, 8192);
        publish(record(1, 0, 0, 8192));
        first_held_.wait();
        send(PacketKind::slab_gone, {}, 1);
        send_slab(2, other, 4096);
        ring_->ring[2].sequence = 2;
      },
      &held);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::peer_misbehaved);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->bytes().back(), std::byte{0}) << "still mapped";
}

// Defect: looking for the second segment's slab, the consumer unmapped the first one's.
TEST_F(HostileProducer, SegmentsThatWereFoundStayWhileOthersAreLookedFor) {
  const Region second = *Region::create(4096, "x");
  const Region third = *Region::create(4096, "x");
  std::array<SegmentEntry, 2> table{};
  table[0].slab = 2;
  table[1].slab = 3;
  for (SegmentEntry& entry : table) {
    entry.bytes = 4096;
    entry.dimensions = kNoTensor;
  }
  std::memcpy(slab_.data() + 4096, table.data(), sizeof table);
  ring_->ring[2].record = record(1, 1, 4096, sizeof table, 2, 2);
  std::optional<Message> held;
  const auto next = receive_from(
      [&] {
        send_slab(1, slab_, 8192);
        send_slab(2, second, 4096);
        publish(record(1, 0, 0, 4096));
        first_held_.wait();
        send(PacketKind::slab_gone, {}, 2);
        send_slab(3, third, 4096);
        ring_->ring[2].sequence = 2;
      },
      &held);
  ASSERT_FALSE(next) << "a segment in memory that is unmapped";
  EXPECT_EQ(next.error().code, Code::peer_misbehaved);
  EXPECT_THAT(next.error().message, testing::HasSubstr("memory that is in use"));
  EXPECT_TRUE(held);
}

TEST_F(HostileProducer, WhatWasNeverSentCannotGo) {
  EXPECT_EQ(code_from([&] {
              send(PacketKind::slab_gone, {}, 1);
              publish(record(1, 0, 0, 1));
            }),
            Code::peer_misbehaved);
}

// Reading a hole makes a page, on the consumer's account.
TEST_F(HostileProducer, HolesAreNotFilledForTheirMaker) {
  const Region holes = *Region::create(64 * kMiB, "x");
  EXPECT_EQ(code_from([&] {
              send_slab(1, holes, holes.size());
              publish(record(1, 0, 0, holes.size()));
            }),
            Code::peer_misbehaved);
  struct stat facts {};
  ASSERT_EQ(::fstat(holes.descriptor(), &facts), 0);
  EXPECT_LE(static_cast<Bytes>(facts.st_blocks) * 512, ReceivedSlabs::kMostHoles);
}

// The end is written, the message is not.
TEST_F(HostileProducer, AWrittenEndDoesNotHideHolesBeforeIt) {
  Region holes = *Region::create(64 * kMiB, "x");
  ASSERT_TRUE(holes.touch(holes.size() - 4096, 4096));
  ring_->ring[2].record = record(1, 1, 0, holes.size() - 4096);
  std::optional<Message> held;
  const auto next = receive_from(
      [&] {
        send_slab(1, holes, holes.size());
        publish(record(1, 0, holes.size() - 4096, 4096));
        ring_->ring[2].sequence = 2;
        first_held_.wait();
      },
      &held);
  ASSERT_TRUE(held);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::peer_misbehaved);
  struct stat facts {};
  ASSERT_EQ(::fstat(holes.descriptor(), &facts), 0);
  EXPECT_LE(static_cast<Bytes>(facts.st_blocks) * 512, ReceivedSlabs::kMostHoles);
}

TEST_F(HostileProducer, SlabsBeyondTheLimitAreNotTaken) {
  options_.receive.slabs = 2;
  const auto message = receive_from([&] {
    const Region more = *Region::create(4096, "x");
    for (std::uint32_t slab = 1; slab <= 3; ++slab) send_slab(slab, more, 4096);
    publish(record(4, 0, 0, 1));
  });
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Code::too_large);
  EXPECT_THAT(message.error().hint, testing::HasSubstr("ReceiveLimits::slabs"));
}

TEST_F(HostileProducer, BytesBeyondTheLimitAreNotMapped) {
  options_.receive.mapped_bytes = kMiB;
  const auto message = receive_from([&] {
    const Region large = *Region::create(kMiB + 4096, "x");
    send_slab(1, large, large.size());
    publish(record(1, 0, 0, 1));
  });
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Code::too_large);
  EXPECT_THAT(message.error().hint, testing::HasSubstr("ReceiveLimits::mapped_bytes"));
}

// A window of two pages that claims to be of a message larger than any memory.
TEST_F(HostileProducer, AStreamedMessageReservesNoMoreThanIsAllowed) {
  options_.receive.gathered_bytes = kMiB;
  const Place place{
      .offset = 0, .bytes = 2 * kMiB, .slab = 1, .chunk_bytes = 4096, .window_bytes = 8192};
  MessageRecord streamed = record(1, 0, 0, 0, 1 | kLanding | kStreamed);
  std::memcpy(streamed.body.data(), &place, sizeof place);
  const auto message = receive_from([&] {
    send_slab(1, slab_, 8192);
    publish(streamed);
  });
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Code::too_large);
  EXPECT_THAT(message.error().hint, testing::HasSubstr("receive_early"));
}

TEST_F(HostileProducer, ASlotThatIsHeldIsNotUsedAgain) {
  ring_->ring[2].record = record(1, 0, 0, 1);
  ring_->ring[2].sequence = 2;
  std::optional<Message> first;
  const auto second = receive_from(
      [this] {
        send_slab(1, slab_, 8192);
        publish(record(1, 0, 0, 8192));
      },
      &first);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::peer_misbehaved);
}

TEST_F(HostileProducer, AWakeSenderThatIsNoneIsRefused) {
  const test::NoWakes none(directory_.path());
  for (const int descriptor : none.descriptors()) {
    pull_ = descriptor;
    EXPECT_EQ(code_from([] {}), Code::peer_misbehaved) << descriptor;
  }
}

TEST_F(HostileProducer, APageOfAnotherFormatIsRefused) {
  page_->version = kFormatVersion + 1;
  EXPECT_EQ(code_from([] {}), Code::peer_misbehaved);
  page_->version = kFormatVersion;
  for (const std::uint32_t cells : {0u, 3u, 256u, ~0u}) {
    ring_->cells = cells;
    EXPECT_EQ(code_from([] {}), Code::peer_misbehaved) << cells;
  }
  ring_->cells = 16;
  ring_->magic = 1;
  EXPECT_EQ(code_from([] {}), Code::peer_misbehaved);
  ring_->magic = kRingMagic;
  page_->magic = 1;
  EXPECT_EQ(code_from([] {}), Code::peer_misbehaved);
}

// Records that are taken back are looked at for their slots: those are not believed either.
TEST_F(HostileProducer, WhatIsTakenBackIsNotBelieved) {
  options_.when_slow = SlowConsumer::drop_oldest;
  MessageRecord small = record(0, kNoSlot, 0, 5, 0, 5);
  small.header.number = 7;
  ring_->ring[1].record = record(1, 64, 0, 1);
  ring_->ring[2].record = record(1, 0xfffe, ~0ull, ~0ull, 0xff, 0xff);
  ring_->ring[3].record = small;
  for (std::uint64_t i = 1; i <= 3; ++i) ring_->ring[i].sequence = i;
  ring_->revoked = 2;
  const auto message = receive_from([] {});
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_EQ(message->info().sequence, 7u);
}

TEST_F(HostileProducer, TakingBackMoreThanThereIsLeavesNothing) {
  options_.when_slow = SlowConsumer::drop_oldest;
  for (const std::uint64_t revoked :
       {std::uint64_t{5}, std::uint64_t{1} << 50, ~std::uint64_t{0}}) {
    ring_->revoked = revoked;
    ring_->end = 1;
    EXPECT_EQ(code_from([] {}), Code::closed) << revoked;
  }
}

TEST_F(HostileProducer, AnEndBehindTheReaderIsAnEnd) {
  ring_->end = 1;
  EXPECT_EQ(code_from([] {}), Code::closed);
}

}  // namespace
}  // namespace gantry
