#include "channel/test_hostile_producer.hpp"

// Records and pages by hand: no consumer believes what cannot be.
namespace gantry {
namespace {

using test::HostileProducer;

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
                                           beside(0, 64, 2, {{2, 32, 1}, {17, 0, 0}}),
                                           beside(0, 64, 4, {{2, 32, 1}, {~0u, ~0u, ~0u}}),
                                           beside(0, 64, 5, {{2, 32, 1}, {1, 1, 1}}),
                                           beside(0, 64, 255, {{2, 32, 1}, {1, 1, 1}}),
                                           beside(0, 3, 1, {{2, 32, 1}, {0, 0, 0}}),
                                           beside(0, 64, 2, {{2, 0, 1}, {1, 0, 0}}),
                                           beside(0, 64, 2, {{2, 32, 0}, {1, 0, 0}}),
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
