#include "core/channel/consumer/test_hostile_producer.hpp"

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
    std::ranges::copy(payload, page_->beside[kBesidePlaces - 1].begin());
    publish(beside(kBesidePlaces - 1, kBesideBytes));
  });
  ASSERT_TRUE(message) << message.error().message;
  std::ranges::fill(page_->beside[kBesidePlaces - 1], std::byte{0});
  EXPECT_TRUE(test::same(message->bytes(), payload));
}

TEST_F(HostileProducer, MessagesOutsideTheirSlabAreNotBelieved) {
  const std::vector<std::pair<MessageRecord, const char*>> records{
      {record(1, 0, 0, 8193), "a message of 8193 bytes at 0 in a slab of 8192"},
      {record(1, 0, 8192, 1), "a message of 1 bytes at 8192 in a slab of 8192"},
      {record(1, 0, ~0ull, 2), "a message of 2 bytes at 18446744073709551615 in"},
      {record(1, 0, 1, ~0ull), "a message of 18446744073709551615 bytes at 1 in"},
      {record(1, 64, 0, 1), "slot 64; 0 to 63 are allowed"},
      {record(1, kNoSlot, 0, 1), "slot 65535; 0 to 63 are allowed"},
      {record(0, kNoSlot, 0, 65, 0, 65),
       "invalid record: kind 0x0 with 65 bytes; a small message has kind 0x0 or 0x40 and at most "
       "64"},
      {record(1, 0, 0, 1, 4), "a message of the unknown kind 0x4"},
      {record(1, 0, 0, 1, 0x13), "a message of the unknown kind 0x13"},
      {record(1, 0, 0, 1, 0x23), "a message of the unknown kind 0x23"},
      {beside(kBesidePlaces, 1), "a message of 1 bytes in place 72 beside"},
      {beside(~0u, 1), "a message of 1 bytes in place 4294967295 beside"},
      {beside(0, kBesideBytes + 1), "a message of 4097 bytes in place 0 beside"},
      {beside(0, ~0u), "a message of 4294967295 bytes in place 0 beside"},
      {beside(0, 64, 2, {{2, 32, 1}, {17, 0, 0}}), "does not fit the 64 bytes beside it"},
      {beside(0, 64, 4, {{2, 32, 1}, {~0u, ~0u, ~0u}}), "does not fit the 64 bytes beside it"},
      {beside(0, 64, 5, {{2, 32, 1}, {1, 1, 1}}), "does not fit the 64 bytes beside it"},
      {beside(0, 64, 255, {{2, 32, 1}, {1, 1, 1}}), "does not fit the 64 bytes beside it"},
      {beside(0, 3, 1, {{2, 32, 1}, {0, 0, 0}}), "does not fit the 3 bytes beside it"},
      {beside(0, 64, 2, {{2, 0, 1}, {1, 0, 0}}), "does not fit the 64 bytes beside it"},
      {beside(0, 64, 2, {{2, 32, 0}, {1, 0, 0}}), "does not fit the 64 bytes beside it"},
      {record(1, 0, 0, 1, 0x80), "invalid record: kind 0x80 with"},
      {record(1, 0, 0, 1, 0x21), "a message of the unknown kind 0x21"},
      {record(1, 0, 0, 1, 0x31), "a window of 0 bytes in chunks of 0"},
      {record(1, 0, 0, 1, 2), "a table of 1 segments in 1 bytes"},
      {record(1, 0, 0, 0, 2, 0), "a table of 0 segments in 0 bytes"},
      {record(1, 0, 0, Bytes{65} * 160, 2, 65), "a table of 65 segments in 10400 bytes"}};
  for (const auto& [bad, words] : records) {
    ring_->ring[1].sequence = 0;
    expect_refused(words, [&, &record = bad] {
      send_slab(1, slab_, 8192);
      publish(record);
    });
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
  EXPECT_THAT(second.error().message, testing::HasSubstr("slot 0 while it is held"));
}

TEST_F(HostileProducer, AWakeSenderThatIsNoneIsRefused) {
  const test::NoWakes none(directory_.path());
  for (const int descriptor : none.descriptors()) {
    pull_ = descriptor;
    const bool is_socket = is_unix_socket(descriptor, SOCK_STREAM) ||
                           is_unix_socket(descriptor, SOCK_SEQPACKET) ||
                           ::fcntl(descriptor, F_GET_SEALS) >= 0;
    expect_refused(is_socket ? "something else for its wake-up sender"
                             : "a descriptor that is neither memory nor a Unix socket",
                   [] {});
  }
}

TEST_F(HostileProducer, APageOfAnotherFormatIsRefused) {
  page_->version = kFormatVersion + 1;
  expect_refused("the producer's pages are of another format", [] {});
  page_->version = kFormatVersion;
  for (const std::uint32_t cells : {0u, 3u, 256u, ~0u}) {
    ring_->cells = cells;
    expect_refused(fmt::format("a ring of {} cells; a power of two up to", cells), [] {});
  }
  ring_->cells = 16;
  ring_->magic = 1;
  expect_refused("the producer's pages are of another format", [] {});
  ring_->magic = kRingMagic;
  page_->magic = 1;
  expect_refused("the producer's pages are of another format", [] {});
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
