#include "channel/announced_slabs.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "base/fd.hpp"
#include "channel/protocol.hpp"
#include "channel/test_support.hpp"

// A producer may be killed between any two packets: each prefix of them must be safe.
namespace gantry {
namespace {

using test::kMiB;

class Announcing : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    producer_.reset(ends[0]);
    consumer_.reset(ends[1]);
  }
  Received next() { return *receive_wire(consumer_.get(), Deadline::now()); }
  bool nothing_came() {
    const auto none = receive_wire(consumer_.get(), Deadline::now());
    return !none && none.error().code == Code::timed_out;
  }
  void expect_slab(const Block& block) {
    const Received received = next();
    EXPECT_EQ(received.packet.kind, PacketKind::slab);
    EXPECT_EQ(received.packet.slab, block.slab());
    EXPECT_EQ(received.packet.bytes, pool_.slab(block.slab())->size());
    EXPECT_EQ(received.fds.size(), 1u);
  }

  /// Whether the consumer took it.
  bool announce(std::uint32_t slab) {
    const int socket = producer_.get();
    return slabs_.announce(slab, {&socket, 1})->empty();
  }

  Pool pool_ = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 8 * kMiB});
  AnnouncedSlabs slabs_{pool_};
  Fd producer_;
  Fd consumer_;
};

TEST_F(Announcing, AJoiningConsumerLearnsEverySlab) {
  const Block first = *pool_.allocate(kMiB);
  const Block second = *pool_.allocate(kMiB);
  ASSERT_TRUE(slabs_.announce(first.slab(), {}));
  ASSERT_TRUE(slabs_.announce(second.slab(), {}));
  ASSERT_TRUE(slabs_.introduce(producer_.get()));
  expect_slab(first);
  expect_slab(second);
  EXPECT_TRUE(nothing_came());
}

TEST_F(Announcing, ASlabIsSentOnceAndItsEndToo) {
  std::uint32_t gone = 0;
  {
    const Block block = *pool_.allocate(kMiB);
    gone = block.slab();
    EXPECT_TRUE(announce(gone));
    EXPECT_TRUE(announce(gone));
    expect_slab(block);
    EXPECT_TRUE(nothing_came());
  }
  ASSERT_EQ(pool_.trim(), kMiB);
  const Block next_block = *pool_.allocate(kMiB);
  EXPECT_TRUE(announce(next_block.slab()));
  const Received dropped = next();
  EXPECT_EQ(dropped.packet.kind, PacketKind::slab_gone);
  EXPECT_EQ(dropped.packet.slab, gone);
  expect_slab(next_block);
}

TEST_F(Announcing, WhoDoesNotTakeItIsNamed) {
  const Block block = *pool_.allocate(kMiB);
  consumer_.reset();
  EXPECT_FALSE(announce(block.slab()));
  const auto told = slabs_.introduce(producer_.get());
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Code::peer_gone);
}

TEST_F(Announcing, SomebodyElsesSlabGoesWithItsOwner) {
  auto theirs = std::make_shared<Region>(*Region::create(kMiB, "x"));
  const std::uint32_t number = slabs_.adopt(theirs);
  EXPECT_EQ(slabs_.adopt(theirs), number);
  EXPECT_EQ(pool_.slab(number), nullptr) << "no number of the pool's";
  EXPECT_TRUE(announce(number));
  const Received announced = next();
  EXPECT_EQ(announced.packet.slab, number);
  EXPECT_EQ(announced.packet.bytes, kMiB);
  theirs.reset();
  const Block block = *pool_.allocate(kMiB);
  EXPECT_TRUE(announce(block.slab()));
  const Received dropped = next();
  EXPECT_EQ(dropped.packet.kind, PacketKind::slab_gone);
  EXPECT_EQ(dropped.packet.slab, number);
  expect_slab(block);
}

}  // namespace
}  // namespace gantry
