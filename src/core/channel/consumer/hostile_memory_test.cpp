#include "core/channel/consumer/test_hostile_producer.hpp"

// Memory by hand: what a consumer maps, and how much of it.
namespace gantry {
namespace {

using test::HostileProducer;

TEST_F(HostileProducer, MemoryThatCouldChangeIsNotMapped) {
  const Fd unsealed(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  expect_refused("seals are missing", [&] {
    const int descriptor = unsealed.get();
    send(PacketKind::slab, std::span(&descriptor, 1), 1, 8192);
    publish(record(1, 0, 0, 1));
  });
}

TEST_F(HostileProducer, SlabsOfAnotherSizeTwiceOrWithoutMemoryAreRefused) {
  expect_refused("announced 16384 bytes of memory and sent 8192", [&] {
    send_slab(1, slab_, 16384);
    publish(record(1, 0, 0, 1));
  });
  ring_->ring[1].sequence = 0;
  expect_refused("slab 1 twice", [&] {
    send_slab(1, slab_, 8192);
    send_slab(1, slab_, 8192);
    publish(record(1, 0, 0, 1));
  });
  ring_->ring[1].sequence = 0;
  expect_refused("an unexpected packet", [&] {
    send(PacketKind::slab, {}, 1, 8192);
    publish(record(1, 0, 0, 1));
  });
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
  EXPECT_THAT(next.error().message, testing::HasSubstr("memory that is in use"));
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
  expect_refused("it dropped slab 1, which it never sent", [&] {
    send(PacketKind::slab_gone, {}, 1);
    publish(record(1, 0, 0, 1));
  });
}

// Reading a hole makes a page, on the consumer's account.
TEST_F(HostileProducer, HolesAreNotFilledForTheirMaker) {
  const Region holes = *Region::create(64 * kMiB, "x");
  expect_refused("67108864 bytes of messages in memory that it never wrote", [&] {
    send_slab(1, holes, holes.size());
    publish(record(1, 0, 0, holes.size()));
  });
  struct stat facts{};
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
  EXPECT_THAT(next.error().message, testing::HasSubstr("memory that it never wrote"));
  struct stat facts{};
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

// A window's message with a tensor: whatever of its table is wrong is the peer's end.
TEST_F(HostileProducer, AWindowsTableIsOfOneSegmentThatIsTheMessage) {
  SegmentEntry right{};
  right.bytes = 8192;
  right.slab = 1;
  right.type = types::f32;
  right.dimensions = 1;
  right.shape[0] = 2048;
  right.strides[0] = 1;
  const auto refuse = [&](const char* words, std::uint8_t count, const Place& place,
                          const SegmentEntry& entry) {
    ring_->ring[1].sequence = 0;
    MessageRecord streamed = record(1, 0, 0, 0, 2 | kLanding | kStreamed, count);
    std::memcpy(streamed.body.data(), &place, sizeof place);
    std::memcpy(slab_.data() + 4096, &entry, sizeof entry);
    expect_refused(words, [&] {
      send_slab(1, slab_, 8192);
      page_->landing[0].begin(1);
      publish(streamed);
    });
  };
  const Place place{
      .offset = 4096, .bytes = 8192, .slab = 1, .chunk_bytes = 4096, .window_bytes = 4096};
  refuse("a message of the unknown kind 0x32", 2, place, right);
  refuse("a message of the unknown kind 0x32", 0, place, right);
  Place beyond = place;
  beyond.offset = 8192 - 100;
  refuse("a message of 160 bytes at 8092 in a slab of 8192", 1, beyond, right);
  Place other = place;
  other.bytes = 8188;
  refuse("a segment of 8192 bytes in a message of 8188", 1, other, right);
  SegmentEntry wide = right;
  wide.shape[0] = 2049;
  refuse("a tensor that does not fit its 8192 bytes", 1, place, wide);
  SegmentEntry outside = right;
  outside.offset = 4097;
  refuse("a message of 4096 bytes at 4097 in a slab of 8192", 1, place, outside);
  SegmentEntry deep = right;
  deep.dimensions = 9;
  refuse("a tensor of 9 dimensions", 1, place, deep);
}

}  // namespace
}  // namespace gantry
