#include "channel/consumers/consumer_set.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "channel/test_raw_consumer.hpp"

namespace gantry {

template <>
struct InvariantBreaker<ConsumerSet> {
  static void forget_only(ConsumerSet& set) { set.only_ = nullptr; }
  static void forget_ids(ConsumerSet& set) { set.last_id_ = 0; }
  static void forget_published(ConsumerSet& set) { set.number_ = 0; }
  static void lose(ConsumerSet& set) { set.lost_ = Error{Code::peer_gone, "by the test", ""}; }
  static void cut(ConsumerSet& set) { set.consumers_.front()->is_cut = true; }
  static void hold(ConsumerSet& set, std::size_t slot) { set.consumers_.front()->hold(slot); }
  static void keep(ConsumerSet& set) {
    set.backlog_.emplace_back();
    set.backlog_.back().header.number = 1;
    set.backlog_.back().header.slot = kNoSlot;
  }
};

namespace {

/// Consumers that are nothing but their pages: nobody is at the other end.
class ConsumerSetTest : public testing::Test {
 protected:
  static constexpr unsigned kSlots = 2;

  ConsumerSet& set() {
    if (!set_) set_.emplace(pool_, ConsumerSet::Limits{kSlots, 4, history_, 0, false});
    return *set_;
  }
  unsigned join() {
    auto resources = std::make_unique<ConsumerResources>();
    resources->memory = *Region::create(shared_size(sizeof(ConsumerPage)), "x");
    test::make_consumer_page(resources->memory);
    return *set().admit(std::move(resources), *ConsumerState::make_page(kSlots));
  }
  void publish(Slot* slot) {
    RecordToSend message;
    if (slot != nullptr) message.header.kind = static_cast<std::uint8_t>(PayloadLocation::block);
    set().publish(message, slot);
  }
  Slot& publish_with_slot() {
    Slot* const slot = set().take_slot(64);
    publish(slot);
    set().release(*slot);
    return *slot;
  }

  unsigned history_ = 0;
  Pool pool_ = *Pool::create({.slab_bytes = kMiB});
  std::optional<ConsumerSet> set_;
};

TEST_F(ConsumerSetTest, WhatWaitsIsTheNextConsumers) {
  publish_with_slot();
  publish(nullptr);
  EXPECT_EQ(set().untaken(), 2u);
  join();
  EXPECT_EQ(set().consumers().front()->unread(), 2u);
  EXPECT_EQ(set().slots_held(), 1u);
  join();
  EXPECT_EQ(set().consumers().back()->unread(), 0u);
}

TEST_F(ConsumerSetTest, WhoLeavesLeavesWhatItHadNotTaken) {
  const unsigned first = join();
  publish_with_slot();
  set().left(first);
  EXPECT_EQ(set().count(), 0u);
  EXPECT_TRUE(set().lost());
  EXPECT_EQ(set().slots_held(), 1u);
  join();
  EXPECT_FALSE(set().lost());
  EXPECT_EQ(set().consumers().front()->unread(), 1u);
}

#ifndef NDEBUG
// What is broken is broken in the process that is to die: the set of this one ends whole.
class ConsumerSetDeathTest : public ConsumerSetTest {
 protected:
  using Breaker = InvariantBreaker<ConsumerSet>;
  ConsumerSetDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ConsumerSetDeathTest, ASlotIsNeededByThoseWhoHoldIt) {
  EXPECT_DEATH((set().slots().add(0, 1), set().refresh()),
               "broken contract.*who_needs");  // I1: there is no such consumer
}

TEST_F(ConsumerSetDeathTest, WhatAConsumerHoldsIsNotFree) {
  join();
  EXPECT_DEATH((Breaker::hold(set(), 1), publish(nullptr)), "broken contract.*who_needs");  // I1
}

TEST_F(ConsumerSetDeathTest, NothingWaitsWhileSomebodyIsThere) {
  join();
  publish(nullptr);
  EXPECT_DEATH((Breaker::keep(set()), set().refresh()), "broken contract.*backlog_");  // I2
}

TEST_F(ConsumerSetDeathTest, AnIdIsOneConsumers) {
  join();
  EXPECT_DEATH((Breaker::forget_ids(set()), set().refresh()), "broken contract.*->id");  // I6
}

TEST_F(ConsumerSetDeathTest, TheOnlyOneIsKnown) {
  join();
  EXPECT_DEATH((Breaker::forget_only(set()), set().refresh()), "broken contract.*only_");  // I7
}

TEST_F(ConsumerSetDeathTest, WhatWaitsWasPublished) {
  publish(nullptr);
  EXPECT_DEATH((Breaker::forget_published(set()), set().refresh()),
               "broken contract.*published");  // I8
}

TEST_F(ConsumerSetDeathTest, WhatIsKeptStaysItsMessages) {
  history_ = 2;
  join();
  Slot& slot = publish_with_slot();
  EXPECT_DEATH((++slot.number, set().refresh()), "broken contract: slots");  // I8
}

TEST_F(ConsumerSetDeathTest, NoRingOverflows) {
  join();
  for (std::size_t i = 0; i < cells_for(kSlots); ++i) publish(nullptr);
  EXPECT_DEATH(publish(nullptr), "broken contract.*unread");  // I9
}

TEST_F(ConsumerSetDeathTest, NobodyIsLostWhileSomebodyIsThere) {
  join();
  EXPECT_DEATH((Breaker::lose(set()), set().refresh()), "broken contract.*lost_");  // I10
}

TEST_F(ConsumerSetDeathTest, WhoIsCutOffIsKnownToBe) {
  join();
  join();
  EXPECT_DEATH((Breaker::cut(set()), set().expect_nobody("")), "broken contract.*any_cut");  // I10
}
#endif

}  // namespace
}  // namespace gantry
