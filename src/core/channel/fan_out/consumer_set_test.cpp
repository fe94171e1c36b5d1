#include "core/channel/fan_out/consumer_set.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <optional>

#include "core/channel/fan_out/credits.hpp"
#include "core/channel/fan_out/publisher.hpp"
#include "core/channel/test_raw_consumer.hpp"

namespace gantry {

template <>
struct InvariantBreaker<ConsumerSet> {
  static void forget_only(ConsumerSet& set) { set.only_ = nullptr; }
  static void forget_ids(ConsumerSet& set) { set.last_id_ = 0; }
  static void lose(ConsumerSet& set) { set.lost_ = Error{Code::peer_gone, "by the test", ""}; }
  static void cut(ConsumerSet& set) { set.consumers_.front()->is_cut = true; }
  static void hold(ConsumerSet& set, std::size_t slot) { set.consumers_.front()->hold(slot); }
};

template <>
struct InvariantBreaker<KeptMessages> {
  static void keep(KeptMessages& kept) {
    kept.backlog_.emplace_back();
    kept.backlog_.back().header.number = 1;
    kept.backlog_.back().header.slot = kNoSlot;
  }
};

template <>
struct InvariantBreaker<Publisher> {
  static void forget_published(Publisher& publisher) { publisher.number_ = 0; }
};

namespace {

/// Consumers that are nothing but their pages: nobody is at the other end.
class ConsumerSetTest : public testing::Test {
 protected:
  static constexpr unsigned kSlots = 2;

  Publisher& publisher() {
    if (!publisher_) publisher_.emplace(pool_, ConsumerSet::Limits{kSlots, 4, history_, 0, false});
    return *publisher_;
  }
  ConsumerSet& set() { return publisher().consumers(); }
  int slots_in_use() { return std::popcount(set().slots().used()); }
  unsigned join(SlowConsumer policy = SlowConsumer::block) {
    auto resources = std::make_unique<ConsumerResources>();
    resources->policy = policy;
    resources->memory = *Region::create(shared_size(sizeof(ConsumerPage)), "x");
    test::make_consumer_page(resources->memory);
    return *set().admit(std::move(resources), *ConsumerState::make_page(kSlots));
  }
  /// One that has a wake-up socket, too.
  ConsumerState& join_with_wakes(SlowConsumer policy = SlowConsumer::block) {
    auto made = *WakeReceiver::make();
    join(policy);
    ConsumerState& consumer = *set().consumers().back();
    consumer.resources().wake_receiver = std::move(made.wake_receiver);
    wake_sender_ = std::move(made.wake_sender);
    return consumer;
  }
  /// What the sender would sleep on, but for its own event.
  std::size_t heard_at(std::uint64_t now_ns) {
    return ConsumerWakes(set()).fall_asleep(SharedFd(), now_ns).size() - 1;
  }
  void ring_at(std::uint64_t now_ns) {
    auto entries = ConsumerWakes(set()).fall_asleep(SharedFd(), now_ns);
    wake_sender_.ring();
    ASSERT_EQ(::poll(entries.data(), entries.size(), 0), 1);
    ConsumerWakes(set()).drain(entries, now_ns);
  }
  void publish(Slot* slot) {
    RecordToSend message;
    if (slot != nullptr) message.header.kind = static_cast<std::uint8_t>(PayloadLocation::block);
    publisher().publish(message, slot);
  }
  Slot& publish_with_slot() {
    Slot* const slot = set().slots().take(8);
    slot->bytes = 64;
    publish(slot);
    set().slots().release(*slot);
    return *slot;
  }

  static constexpr std::uint64_t kStart = 1'000'000'000;  // any time, in ns

  WakeSender wake_sender_;
  unsigned history_ = 0;
  Pool pool_ = *Pool::create({.slab_bytes = kMiB});
  std::optional<Publisher> publisher_;
};

TEST_F(ConsumerSetTest, WhatWaitsIsTheNextConsumers) {
  publish_with_slot();
  publish(nullptr);
  EXPECT_EQ(Credits(set()).untaken(), 2u);
  join();
  EXPECT_EQ(set().consumers().front()->unread(), 2u);
  EXPECT_EQ(slots_in_use(), 1);
  join();
  EXPECT_EQ(set().consumers().back()->unread(), 0u);
}

TEST_F(ConsumerSetTest, WhoLeavesLeavesWhatItHadNotTaken) {
  const unsigned first = join();
  publish_with_slot();
  ConsumerSet::Gone gone;
  set().left(first, gone);
  EXPECT_EQ(set().count(), 0u);
  EXPECT_TRUE(set().lost());
  EXPECT_EQ(slots_in_use(), 1);
  join();
  EXPECT_FALSE(set().lost());
  EXPECT_EQ(set().consumers().front()->unread(), 1u);
}

// ---- rings ---------------------------------------------------------------------------------

TEST_F(ConsumerSetTest, WhoRingsForNothingIsLeftOutUntilItsMuteIsOver) {
  join_with_wakes();
  std::uint64_t now = kStart;
  while (ConsumerWakes(set()).until_mutes_end(now) == std::chrono::nanoseconds::max()) {
    ASSERT_LT(now, kStart + 2 * WakeLimit::kMostIdle);
    ring_at(++now);
  }
  EXPECT_EQ(heard_at(now), 0u);
  const auto mute = static_cast<std::uint64_t>(ConsumerWakes(set()).until_mutes_end(now).count());
  EXPECT_EQ(mute, WakeLimit::kShortestNs);
  EXPECT_EQ(heard_at(now + mute), 1u);
  EXPECT_EQ(ConsumerWakes(set()).until_mutes_end(now + mute), std::chrono::nanoseconds::max());
}

TEST_F(ConsumerSetTest, WhoRingsForMessagesThatItTookIsListenedTo) {
  ConsumerState& consumer = join_with_wakes();
  auto& page = *reinterpret_cast<ConsumerPage*>(consumer.resources().memory.data());
  for (std::uint64_t i = 1; i <= 10 * WakeLimit::kMostIdle; ++i) {
    publish(nullptr);
    page.taken.store(i, std::memory_order_seq_cst);
    ring_at(kStart + i);
    ASSERT_EQ(heard_at(kStart + i), 1u);
  }
}

TEST_F(ConsumerSetTest, WhoRingsForSlotsThatItGaveBackIsListenedTo) {
  ConsumerState& consumer = join_with_wakes();
  auto& page = *reinterpret_cast<ConsumerPage*>(consumer.resources().memory.data());
  for (std::uint64_t i = 1; i <= 10 * WakeLimit::kMostIdle; ++i) {
    const std::size_t slot = set().slots().index_of(publish_with_slot());
    page.taken.store(i, std::memory_order_seq_cst);
    set().refresh();
    ring_at(kStart + 2 * i);  // for the message; then for the slot
    page.released.release(slot, i);
    ring_at(kStart + 2 * i + 1);
    ring_at(kStart + 2 * i + 1);  // for nothing, half as often
    ASSERT_EQ(heard_at(kStart + 2 * i + 1), 1u);
  }
}

// Its chunks are its own word. Of one that blocks they count, as it could hold everybody up anyway.
TEST_F(ConsumerSetTest, WhoRingsForChunksIsListenedToIfItBlocks) {
  for (const SlowConsumer policy : {SlowConsumer::block, SlowConsumer::drop_newest}) {
    ConsumerState& consumer = join_with_wakes(policy);
    auto& page = *reinterpret_cast<ConsumerPage*>(consumer.resources().memory.data());
    const std::size_t slot = set().slots().index_of(publish_with_slot());
    for (std::uint64_t i = 1; i <= 2 * WakeLimit::kMostIdle; ++i) {
      page.passed[slot].store(i, std::memory_order_seq_cst);
      if (heard_at(kStart) != 0) ring_at(kStart);
    }
    EXPECT_EQ(heard_at(kStart), policy == SlowConsumer::block ? 1u : 0u);
    ConsumerSet::Gone gone;
    set().left(consumer.id(), gone);
  }
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
  EXPECT_DEATH((InvariantBreaker<KeptMessages>::keep(set().kept()), set().refresh()),
               "broken contract.*backlog");  // I2
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
  EXPECT_DEATH(
      (InvariantBreaker<Publisher>::forget_published(publisher()), publisher().check_invariants()),
      "broken contract.*newest");  // I8
}

TEST_F(ConsumerSetDeathTest, WhatIsKeptStaysItsMessages) {
  history_ = 2;
  join();
  Slot& slot = publish_with_slot();
  EXPECT_DEATH((++slot.number, set().refresh()), "broken contract: slots");  // K2
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
