#include <gtest/gtest.h>

#include <optional>

#include "core/base/test_failing_heap.hpp"
#include "core/channel/fan_out/credits.hpp"
#include "core/channel/fan_out/publisher.hpp"
#include "core/channel/test_raw_consumer.hpp"

// The heap fails at its n-th use while a consumer leaves, for every n until none fails: its slots
// stay its own until it has given them back, and no longer.
namespace gantry {
namespace {

/// Consumers that are nothing but their pages, and whose processes live while `life` does.
class NoMemory : public testing::Test {
 protected:
  struct Reader {
    unsigned id = 0;
    WakeSender life;
    ConsumerPage* page = nullptr;
  };
  ConsumerSet& set() { return publisher_->consumers(); }
  Reader join() {
    auto made = *WakeReceiver::make();
    auto resources = std::make_unique<ConsumerResources>();
    resources->policy = SlowConsumer::block;
    resources->memory = *Region::create(shared_size(sizeof(ConsumerPage)), "x");
    test::make_consumer_page(resources->memory);
    resources->wake_receiver = std::move(made.wake_receiver);
    const unsigned id = *set().admit(std::move(resources), *ConsumerState::make_page(kSlots));
    return {id, std::move(made.wake_sender),
            reinterpret_cast<ConsumerPage*>(set().consumers().back()->resources().memory.data())};
  }
  /// A message of several blocks; its slot.
  std::size_t publish() {
    Slot* const slot = set().slots().take(kSlots);
    slot->bytes = 64;
    slot->block = *pool_.allocate(64);
    slot->moved.push_back(*pool_.allocate(64));
    slot->moved.push_back(*pool_.allocate(64));
    RecordToSend message;
    message.header.kind = static_cast<std::uint8_t>(PayloadLocation::block);
    publisher_->publish(message, slot);
    const std::size_t index = set().slots().index_of(*slot);
    set().slots().release(*slot);
    return index;
  }
  int slots_in_use() { return std::popcount(set().slots().used()); }

  /// A reader holds two messages, and has two more unread; `leave` has it leave without heap, and
  /// `end` has it give back the two. `others`: readers that stay.
  template <class Leave, class End>
  void at_every_failure(unsigned others, Leave leave, End end) {
    for (long n = 0;; ++n) {
      SCOPED_TRACE(testing::Message() << others << " others, fails in " << n);
      ASSERT_LT(n, 200) << "it never came to an end";
      publisher_.emplace(pool_, ConsumerSet::Limits{kSlots, 4, 0, 0, false});
      Reader reader = join();
      std::vector<Reader> staying;
      for (unsigned i = 0; i < others; ++i) staying.push_back(join());
      for (std::size_t& slot : slots_) slot = publish();
      reader.page->taken = 2;
      for (Reader& one : staying) {
        one.page->taken = 4;
        release(one, slots_);
      }
      set().refresh();
      ConsumerSet::Gone gone;
      bool has_failed = false;
      {
        const test::FailingHeap heap(n, true);
        leave(reader, gone);
        has_failed = heap.has_failed();
      }
      set().left(reader.id, gone);

      const Reader next = join();  // its bit is not the other's
      const std::uint64_t inherited = set().slots().needed_by(set().consumers().back()->bit());
      const std::uint64_t used = inherited | std::uint64_t{1} << publish();
      EXPECT_TRUE(set().departed().holds_memory());
      EXPECT_EQ(pool_.report().blocks, 3u * (2u + std::popcount(used))) << "the two are its own";
      end(reader);
      set().forget_departed(gone);
      EXPECT_TRUE(set().departed().is_empty());
      EXPECT_EQ(set().slots().used(), used);
      EXPECT_EQ(pool_.report().blocks, 3u * std::popcount(used));
      publisher_.reset();
      if (has_failed) continue;
      EXPECT_GT(n, 3) << "the heap is used, and was made to fail";
      return;
    }
  }
  static void release(Reader& reader, std::span<const std::size_t> slots) {
    for (std::size_t i = 0; i < slots.size(); ++i) reader.page->released.release(slots[i], i + 1);
  }

  static constexpr unsigned kSlots = 8;
  Pool pool_ = *Pool::create({.slab_bytes = kMiB});
  std::optional<Publisher> publisher_;
  std::array<std::size_t, 4> slots_{};
};

TEST_F(NoMemory, AReaderThatLeavesKeepsItsSlotsUntilItReleasesThem) {
  for (const unsigned others : {0u, 1u})
    at_every_failure(
        others, [this](const Reader& reader, auto& gone) { set().left(reader.id, gone); },
        [this](Reader& reader) { release(reader, std::span(slots_).first(2)); });
}

TEST_F(NoMemory, AReaderThatLeavesKeepsItsSlotsUntilItDies) {
  for (const unsigned others : {0u, 1u})
    at_every_failure(
        others, [this](const Reader& reader, auto& gone) { set().left(reader.id, gone); },
        [](Reader& reader) { reader.life = WakeSender(); });
}

// What it had not taken it loses when it hangs up.
TEST_F(NoMemory, AReaderThatIsCutKeepsItsSlotsUntilItReleasesThem) {
  at_every_failure(
      1,
      [this](const Reader& reader, auto&) {
        reader.page->taken = 1000;  // nonsense
        set().refresh();
      },
      [this](Reader& reader) { release(reader, std::span(slots_).first(2)); });
}

}  // namespace
}  // namespace gantry
