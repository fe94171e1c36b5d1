#include "core/channel/fan_out/announced_slabs.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "core/base/os/fd.hpp"
#include "core/channel/consumer/received_slabs.hpp"
#include "core/channel/test_support.hpp"
#include "core/channel/wire/protocol.hpp"

// A producer may be killed between any two packets: each prefix of them must be safe.
namespace gantry {
namespace {

class Announcing : public testing::Test {
 protected:
  /// One consumer's line, as the producer and as the consumer has it.
  struct Ends {
    Fd producer;
    Fd consumer;
  };
  static Ends make_ends() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {Fd(ends[0]), Fd(ends[1])};
  }
  void SetUp() override { slabs_.add(0, first_.producer.get()); }

  static Received next(const Ends& ends) {
    auto received = receive_wire(ends.consumer.get(), Deadline::now());
    EXPECT_TRUE(received);
    return received ? std::move(*received) : Received{};
  }
  static bool nothing_came(const Ends& ends) {
    const auto none = receive_wire(ends.consumer.get(), Deadline::now());
    return !none && none.error().code == Code::timed_out;
  }
  void expect_slab(const Ends& ends, const Block& block) {
    const Received received = next(ends);
    EXPECT_EQ(received.packet.kind, PacketKind::slab);
    EXPECT_EQ(received.packet.slab, block.slab());
    EXPECT_EQ(received.packet.bytes, pool_.slab(block.slab())->size());
    EXPECT_EQ(received.fds.size(), 1u);
  }
  static void expect_gone(const Ends& ends, std::uint32_t slab) {
    const Received dropped = next(ends);
    EXPECT_EQ(dropped.packet.kind, PacketKind::slab_gone);
    EXPECT_EQ(dropped.packet.slab, slab);
  }
  /// Whether the consumer was told.
  bool tell(unsigned consumer, std::uint32_t slab) {
    const auto told = slabs_.tell(consumer, {&slab, 1});
    EXPECT_TRUE(told) << told.error().message;
    return told && *told;
  }
  /// Of a slab that is gone again; its number.
  std::uint32_t tell_and_drop(unsigned consumer) {
    std::uint32_t slab = 0;
    {
      const Block block = *pool_.allocate(kMiB);
      slab = block.slab();
      EXPECT_TRUE(tell(consumer, slab));
    }
    EXPECT_EQ(pool_.trim(), kMiB);
    return slab;
  }

  Pool pool_ = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 8 * kMiB});
  const BlockOptions strictly_ = {.counts_lingering = true};
  AnnouncedSlabs slabs_{pool_};
  Ends first_ = make_ends();
};

TEST_F(Announcing, AJoiningConsumerLearnsWhatItNeedsAndNothingElse) {
  const Block needed = *pool_.allocate(kMiB);
  const Block other = *pool_.allocate(kMiB);
  EXPECT_TRUE(tell(0, needed.slab()));
  EXPECT_TRUE(tell(0, other.slab()));
  const Ends ends = make_ends();
  slabs_.add(1, ends.producer.get());
  const std::array<std::uint32_t, 2> twice{needed.slab(), needed.slab()};
  ASSERT_TRUE(slabs_.introduce(1, twice));
  expect_slab(ends, needed);
  EXPECT_TRUE(nothing_came(ends));
  EXPECT_EQ(slabs_.who_know(twice), 3u);
  const std::array<std::uint32_t, 2> both{needed.slab(), other.slab()};
  EXPECT_EQ(slabs_.who_know(both), 1u);
}

TEST_F(Announcing, AJoiningConsumerLearnsAnyNumberOfSlabs) {
  constexpr std::size_t kMany = 450;  // each costs two descriptors here, of perhaps 1024
  std::vector<std::shared_ptr<Region>> regions;
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < kMany; ++i) {
    regions.push_back(std::make_shared<Region>(*Region::create(4096, "x")));
    std::memcpy(regions.back()->data(), &i, sizeof i);
    numbers.push_back(slabs_.adopt(regions.back(), nullptr));
  }
  const auto told = slabs_.introduce(0, numbers);
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(slabs_.who_know(numbers), 1u);
  ReceivedSlabs received(
      std::make_shared<SenderQuota>(ReceiveQuota::make({.slabs = kMany}, {.slabs = kMany}, 1)));
  while (received.hear(first_.consumer.get(), Deadline::now())) {
  }
  for (std::size_t i = 0; i < kMany; ++i) {
    const auto slab = received.find(numbers[i], first_.consumer.get(), Deadline::now());
    ASSERT_TRUE(slab) << slab.error().message;
    EXPECT_EQ(std::memcmp((*slab)->region->data(), &i, sizeof i), 0) << "the number of another";
  }
  EXPECT_TRUE(slabs_.heard(0, received.heard())) << "both count alike";
  EXPECT_FALSE(slabs_.is_unheard(0));
}

// With a slab that was lent come the wake-up senders of its lenders: descriptors, too.
TEST_F(Announcing, WhatComesWithASlabCostsItsSender) {
  const auto theirs = std::make_shared<Region>(*Region::create(4096, "x"));
  const auto lender =
      std::make_shared<const WakeSender>(std::move(WakeReceiver::make()->wake_sender));
  ASSERT_TRUE(tell(0, slabs_.adopt(theirs, detail::inherit(lender, nullptr))));
  ReceivedSlabs received(std::make_shared<SenderQuota>(ReceiveQuota::make({.slabs = 1}, {}, 1)));
  const auto heard = received.hear(first_.consumer.get(), Deadline::now());
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().code, Code::too_large) << heard.error().message;
}

TEST_F(Announcing, ASlabIsSentOnceAndItsEndToo) {
  const std::uint32_t gone = tell_and_drop(0);
  const Block next_block = *pool_.allocate(kMiB);
  EXPECT_TRUE(tell(0, next_block.slab()));
  EXPECT_TRUE(tell(0, next_block.slab()));
  EXPECT_EQ(next(first_).packet.kind, PacketKind::slab);
  expect_gone(first_, gone);
  expect_slab(first_, next_block);
  slabs_.keep_up();
  EXPECT_TRUE(nothing_came(first_));
}

// Defect: a newcomer was told of the end of slabs that it had never heard of, and left.
TEST_F(Announcing, TheEndOfASlabIsToldToThoseWhoKnewIt) {
  const std::uint32_t before = tell_and_drop(0);
  const Ends ends = make_ends();
  slabs_.add(1, ends.producer.get());
  ASSERT_TRUE(slabs_.introduce(1, {}));
  slabs_.keep_up();
  EXPECT_EQ(next(first_).packet.kind, PacketKind::slab);
  expect_gone(first_, before);
  EXPECT_TRUE(nothing_came(ends)) << "it never heard of it";
}

// The next consumer may get the place of one that left, and knows nothing that the other knew.
TEST_F(Announcing, ASuccessorKnowsNothing) {
  const Block block = *pool_.allocate(kMiB);
  EXPECT_TRUE(tell(0, block.slab()));
  slabs_.remove(0);
  const Ends ends = make_ends();
  slabs_.add(0, ends.producer.get());
  EXPECT_TRUE(tell(0, block.slab()));
  expect_slab(ends, block);
}

TEST_F(Announcing, WhoHearsNothingIsNotSentWithoutEnd) {
  std::vector<std::shared_ptr<Region>> regions;
  for (std::uint64_t i = 0; i < AnnouncedSlabs::kMostUnheard; ++i) {
    regions.push_back(std::make_shared<Region>(*Region::create(4096, "x")));
    ASSERT_TRUE(tell(0, slabs_.adopt(regions.back(), nullptr)));
  }
  const Block block = *pool_.allocate(kMiB);
  EXPECT_FALSE(tell(0, block.slab()));
  EXPECT_TRUE(slabs_.is_unheard(0));
  EXPECT_TRUE(slabs_.heard(0, 1));
  EXPECT_TRUE(tell(0, block.slab()));
}

TEST_F(Announcing, WhatCannotBeHeardIsNotBelieved) {
  const Block block = *pool_.allocate(kMiB);
  EXPECT_TRUE(tell(0, block.slab()));
  EXPECT_FALSE(slabs_.heard(0, 2)) << "more than was said";
  EXPECT_TRUE(slabs_.heard(0, 1));
  EXPECT_FALSE(slabs_.heard(0, 0)) << "less than before";
}

TEST_F(Announcing, WhoHungUpIsFoundOutElsewhere) {
  const Block block = *pool_.allocate(kMiB);
  first_.consumer.reset();
  EXPECT_TRUE(tell(0, block.slab())) << "what it is sent goes to nobody";
  const Ends ends = make_ends();
  slabs_.add(1, ends.producer.get());
  ::shutdown(ends.consumer.get(), SHUT_RDWR);
  const std::uint32_t slab = block.slab();
  const auto told = slabs_.introduce(1, {&slab, 1});
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Code::peer_gone);
}

// ---- what consumers still map counts against the budget ----------------------------------------

TEST_F(Announcing, ADroppedSlabCountsUntilItsReadersLetGo) {
  const Ends ends = make_ends();
  slabs_.add(1, ends.producer.get());
  const Block block = *pool_.allocate(kMiB);
  const std::uint32_t kept = block.slab();
  EXPECT_TRUE(tell(1, kept));
  const std::uint32_t gone = tell_and_drop(0);
  EXPECT_EQ(pool_.report().lingering_bytes, kMiB);
  slabs_.keep_up();
  EXPECT_TRUE(slabs_.awaits_return(1));
  EXPECT_EQ(next(first_).packet.kind, PacketKind::slab);
  expect_gone(first_, gone);
  EXPECT_TRUE(slabs_.heard(0, 1));
  EXPECT_EQ(pool_.report().lingering_bytes, kMiB) << "it has heard of the slab, not of its end";
  EXPECT_FALSE(pool_.allocate(7 * kMiB, strictly_)) << "one in use, one not let go, of eight";
  EXPECT_TRUE(slabs_.heard(0, 2));
  EXPECT_EQ(slabs_.returned(), 1u);
  EXPECT_FALSE(slabs_.awaits_return(1));
  EXPECT_EQ(pool_.report().lingering_bytes, 0u);
  EXPECT_TRUE(pool_.allocate(7 * kMiB, strictly_));
}

TEST_F(Announcing, WhoLeavesLetsGo) {
  tell_and_drop(0);
  EXPECT_EQ(pool_.report().lingering_bytes, kMiB);
  slabs_.remove(0);
  EXPECT_EQ(pool_.report().lingering_bytes, 0u);
  EXPECT_EQ(slabs_.returned(), 1u);
}

TEST_F(Announcing, WhatNobodyWasToldOfCountsForNothing) {
  {
    const Block block = *pool_.allocate(8 * kMiB);
    EXPECT_EQ(pool_.report().slab_bytes, 8 * kMiB);
  }
  EXPECT_TRUE(pool_.allocate(7 * kMiB + 1, strictly_)) << "in place of the other";
  EXPECT_EQ(pool_.report().lingering_bytes, 0u);
}

// ---- other channels' slabs -------------------------------------------------------------------

TEST_F(Announcing, SomebodyElsesSlabGoesWithItsOwner) {
  auto theirs = std::make_shared<Region>(*Region::create(kMiB, "x"));
  const std::uint32_t number = slabs_.adopt(theirs, nullptr);
  EXPECT_EQ(slabs_.adopt(theirs, nullptr), number);
  EXPECT_EQ(pool_.slab(number), nullptr) << "no number of the pool's";
  EXPECT_TRUE(tell(0, number));
  const Received announced = next(first_);
  EXPECT_EQ(announced.packet.slab, number);
  EXPECT_EQ(announced.packet.bytes, kMiB);
  theirs.reset();
  const Block block = *pool_.allocate(kMiB);
  EXPECT_TRUE(tell(0, block.slab()));
  expect_gone(first_, number);
  expect_slab(first_, block);
}

}  // namespace
}  // namespace gantry
