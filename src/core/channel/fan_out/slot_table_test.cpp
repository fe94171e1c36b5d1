#include "core/channel/fan_out/slot_table.hpp"

#include <gtest/gtest.h>

#include "core/channel/test_support.hpp"

namespace gantry {
namespace {

class Slots : public testing::Test {
 protected:
  /// Of that size, in a slot, which is then free again.
  const std::byte* use_once(SlotTable& table, Bytes size) {
    Slot* const slot = table.take(3);
    slot->block = *pool_.allocate(size);
    const std::byte* const data = slot->block.bytes().data();
    EXPECT_TRUE(table.remove(table.index_of(*slot), kSenderBit));
    return data;
  }
  Pool pool_ = *Pool::create({.slab_bytes = kMiB});
  SlotTable table_{true};
};

TEST_F(Slots, AreTakenInTurn) {
  for (const unsigned expected : {0u, 1u, 2u, 0u}) {
    Slot* const slot = table_.take(3);
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(table_.index_of(*slot), expected);
    table_.remove(expected, kSenderBit);
  }
}

TEST_F(Slots, InUseArePassedOver) {
  table_.add(1, 1);
  EXPECT_EQ(table_.index_of(*table_.take(3)), 0u);
  EXPECT_EQ(table_.index_of(*table_.take(3)), 2u);
  EXPECT_EQ(table_.index_of(*table_.take(3)), 3u) << "more than take turns, when there is need";
  for (unsigned i = 4; i < kMaxSlots; ++i) ASSERT_NE(table_.take(3), nullptr);
  EXPECT_EQ(table_.take(3), nullptr);
}

TEST_F(Slots, KeepTheirMemory) {
  const std::byte* const first = use_once(table_, 4096);
  EXPECT_EQ(table_[0].spare.bytes().data(), first);
  EXPECT_NE(use_once(table_, 4096), first);
  EXPECT_TRUE(table_.drop_spares());
  EXPECT_FALSE(table_.drop_spares());
  EXPECT_EQ(pool_.report().live_bytes, 0u);
}

TEST_F(Slots, KeepNothingLarge) {
  use_once(table_, SlotTable::kLargestSpare + 1);
  EXPECT_EQ(pool_.report().live_bytes, 0u);
}

TEST_F(Slots, KeepNothingOfSomebodyElsesPool) {
  SlotTable plain(false);
  use_once(plain, 4096);
  EXPECT_EQ(pool_.report().live_bytes, 0u);
}

// A consumer that hung up may still read it.
TEST_F(Slots, KeepNothingThatSomebodyElseHolds) {
  Slot* const slot = table_.take(3);
  slot->block = *pool_.allocate(4096);
  const Slot other = slot->share();
  table_.remove(0, kSenderBit);
  EXPECT_FALSE(table_[0].spare);
  EXPECT_EQ(pool_.report().live_bytes, 4096u);
}

// The sender looks at it without the lock.
TEST_F(Slots, DropNoSpareOfASlotThatIsBeingFilled) {
  use_once(table_, 4096);
  table_.add(0, kSenderBit);
  EXPECT_FALSE(table_.drop_spares());
  EXPECT_TRUE(table_[0].spare);
}

#ifndef NDEBUG
class SlotsDeathTest : public Slots {
 protected:
  SlotsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(SlotsDeathTest, ASlotIsUsedWhenSomebodyNeedsItAndThenAlone) {
  EXPECT_DEATH(table_.add(0, 0), "broken contract.*used_");  // I1
}

TEST_F(SlotsDeathTest, NobodyElseNeedsASlot) {
  EXPECT_DEATH(table_.add(0, std::uint64_t{1} << kMaxConsumers), "broken contract.*kNobody");  // I2
}

TEST_F(SlotsDeathTest, AFreeSlotHasNothing) {
  table_[0].table = *pool_.allocate(64);
  EXPECT_DEATH(table_.add(1, 1), "broken contract.*is_empty");  // I3
  table_[0].table = Block();
  table_[0].bytes = 64;
  EXPECT_DEATH(table_.add(1, 1), "broken contract.*bytes");  // I3
}

TEST_F(SlotsDeathTest, ASpareBlockIsSmall) {
  table_[0].spare = *pool_.allocate(SlotTable::kLargestSpare + 1);
  EXPECT_DEATH(table_.add(1, 1), "broken contract.*spare");  // I4
}

TEST_F(SlotsDeathTest, SomeSlotsAreUsedInTurn) {
  EXPECT_DEATH(static_cast<void>(table_.take(0)), "broken contract.*turns");
  EXPECT_DEATH(static_cast<void>(table_.take(kMaxSlots + 1)), "broken contract.*turns");
}

TEST_F(SlotsDeathTest, ASlotIsLetGoOfOnceByEach) {
  table_.add(0, 3);
  table_.remove(0, 1);
  EXPECT_DEATH(table_.remove(0, 1), "broken contract.*consumers");  // I6
  EXPECT_DEATH(table_.remove(1, 1), "broken contract.*consumers");  // I6: it is free
}
#endif

}  // namespace
}  // namespace gantry
