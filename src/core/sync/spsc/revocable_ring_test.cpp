#include "core/sync/spsc/revocable_ring.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

#include "core/sync/spsc/release_board.hpp"

// Property: whatever the writer takes back, a record comes out once, whole and in order, its slot's
// memory is never written while the reader reads it, none is lost for ever, and the newest always
// comes. Method: a writer that never waits and takes the oldest back when its reader is behind; a
// reader that looks at slots in place, keeps some in hand, and rests now and then. Every word of
// record and slot must be the message's number; at the end what came and what was missed must be
// all that was published. Seen to fail: [V3] and [V4] swapped (double use of a slot), [V1] and [V2]
// swapped, a slot in doubt freed, records passed over without being given back (the writer has no
// slot), `taken` before they are given back, a mixed copy given back, a plain copy (tsan preset).
namespace gantry {
namespace {

struct Wide {
  std::uint64_t number;
  std::uint64_t slot;
  std::array<std::uint64_t, 13> words;
};
constexpr std::size_t kSlots = 12;
constexpr std::uint64_t kNone = ~std::uint64_t{0};
using Payload = std::array<std::uint64_t, 4>;

struct Shared {
  std::array<RingCell<Wide>, 8> cells{};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  alignas(64) std::atomic<std::uint64_t> revoked{0};
  alignas(64) std::atomic<bool> ended{false};
  ReleaseBoard<kSlots> board;
  std::array<Payload, kSlots> memory{};
};

/// Publishes without ever waiting for the reader.
class Writer {
 public:
  using Ring = RevocableWriter<Wide>;
  Writer(Shared& shared, std::uint64_t depth)
      : shared_(shared), ring_(shared.cells), depth_(depth) {}

  /// `with_slot` false: a small one.
  void publish(bool with_slot) {
    const std::uint64_t number = ring_.published() + 1;
    ASSERT_TRUE(ring_.refresh(shared_.taken));
    reclaim();
    std::uint64_t slot = kNone;
    if (with_slot) slot = take_slot(number);
    Wide record{number, slot, {}};
    record.words.fill(number);
    EXPECT_EQ(ring_.publish_over(record), number);
    while (ring_.unread() > depth_) take_back();
  }
  void reclaim() {
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      if (lent_[slot] != 0 && shared_.board.is_released(slot, lent_[slot])) lent_[slot] = 0;
  }
  [[nodiscard]] std::size_t lent() const {
    return static_cast<std::size_t>(
        std::count_if(lent_.begin(), lent_.end(), [](auto number) { return number != 0; }));
  }
  [[nodiscard]] std::uint64_t unread() {
    EXPECT_TRUE(ring_.refresh(shared_.taken));
    return ring_.unread();
  }
  std::uint64_t certain = 0, in_doubt = 0;

 private:
  // There is one: those unread, those in the reader's hand and one in doubt are fewer.
  std::uint64_t take_slot(std::uint64_t number) {
    for (std::size_t slot = 0;; slot = (slot + 1) % kSlots) {
      if (lent_[slot] != 0) {
        if (slot + 1 == kSlots) reclaim();
        continue;
      }
      lent_[slot] = number;
      shared_.memory[slot].fill(number);
      return slot;
    }
  }
  void take_back() {
    const Wide oldest = ring_.record(ring_.published() + 1 - ring_.unread());
    const Ring::Revoked revoked = ring_.revoke_oldest(shared_.revoked, shared_.taken);
    ASSERT_NE(revoked, Ring::Revoked::broken);
    ++(revoked == Ring::Revoked::certain ? certain : in_doubt);
    if (revoked == Ring::Revoked::certain && oldest.slot != kNone &&
        lent_[oldest.slot] == oldest.number)
      lent_[oldest.slot] = 0;
  }
  Shared& shared_;
  Ring ring_;
  std::uint64_t depth_;
  std::array<std::uint64_t, kSlots> lent_{};
};

/// Takes what comes, two in hand at most while it takes the next.
class Reader {
 public:
  explicit Reader(Shared& shared) : shared_(shared), ring_(shared.cells) {}

  bool take() {
    Wide record;  // NOLINT: claim() fills it
    const auto give_back = [this](const Wide& one) {
      if (one.slot != kNone) shared_.board.release(one.slot, one.number);
    };
    if (!ring_.claim(record, shared_.taken, shared_.revoked, give_back)) return false;
    wrong += record.number <= last;
    last = record.number;
    ++got;
    for (const std::uint64_t word : record.words) wrong += word != record.number;
    if (record.slot != kNone) held_.push_back(record);
    look_at_all();
    while (held_.size() > 2) give_back_one();
    return true;
  }
  void give_back_all() {
    look_at_all();
    while (!held_.empty()) give_back_one();
  }
  [[nodiscard]] std::uint64_t missed() const { return ring_.missed(); }
  [[nodiscard]] bool can_take() const { return ring_.can_claim(shared_.revoked); }
  std::uint64_t last = 0, got = 0, wrong = 0;

 private:
  void look_at_all() {
    for (const Wide& one : held_)
      for (const std::uint64_t word : shared_.memory[one.slot]) wrong += word != one.number;
  }
  void give_back_one() {  // the newer first, now and then
    const bool newest = held_.front().number % 3 == 0;
    const Wide one = newest ? held_.back() : held_.front();
    if (newest)
      held_.pop_back();
    else
      held_.pop_front();
    shared_.board.release(one.slot, one.number);
  }
  Shared& shared_;
  RevocableReader<Wide> ring_;
  std::deque<Wide> held_;
};

TEST(RevocableRing, TheNewestAreThereForWhoComesLate) {
  Shared shared;
  Writer writer(shared, 2);
  Reader reader(shared);
  EXPECT_FALSE(reader.can_take());
  EXPECT_FALSE(reader.take());
  for (int i = 0; i < 50; ++i) writer.publish(true);
  EXPECT_EQ(writer.certain, 48u);
  EXPECT_EQ(writer.lent(), 2u) << "what is taken back is free at once";
  EXPECT_TRUE(reader.can_take());
  EXPECT_TRUE(reader.take());
  EXPECT_EQ(reader.last, 49u);
  EXPECT_TRUE(reader.take());
  EXPECT_EQ(reader.last, 50u);
  EXPECT_FALSE(reader.take());
  EXPECT_EQ(reader.missed(), 48u);
  EXPECT_EQ(reader.wrong, 0u);
  reader.give_back_all();
  writer.reclaim();
  EXPECT_EQ(writer.lent(), 0u);
}

TEST(RevocableRing, WhoKeepsUpMissesNothing) {
  Shared shared;
  Writer writer(shared, 1);
  Reader reader(shared);
  for (int i = 0; i < 50; ++i) {
    writer.publish(i % 2 == 0);
    EXPECT_TRUE(reader.take());
  }
  EXPECT_EQ(reader.got, 50u);
  EXPECT_EQ(reader.missed() + writer.certain + writer.in_doubt, 0u);
}

TEST(RevocableRing, WhatMayHaveBeenTakenIsInDoubt) {
  Shared shared;
  RevocableWriter<Wide> writer(shared.cells);
  writer.publish_over(Wide{1, 0, {}});
  writer.publish_over(Wide{2, 0, {}});
  shared.taken = 1;  // and the writer has not looked since
  EXPECT_EQ(writer.revoke_oldest(shared.revoked, shared.taken),
            RevocableWriter<Wide>::Revoked::in_doubt);
  EXPECT_EQ(shared.revoked, 1u);
  EXPECT_EQ(writer.unread(), 1u);
  EXPECT_EQ(writer.revoke_oldest(shared.revoked, shared.taken),
            RevocableWriter<Wide>::Revoked::certain);
  EXPECT_EQ(writer.unread(), 0u);
  EXPECT_TRUE(writer.refresh(shared.taken)) << "a word behind what was taken back is no lie";
  shared.taken = 2;
  EXPECT_TRUE(writer.refresh(shared.taken));
}

// The reader's half of the doubt: it took the word, then sees that it was too late.
TEST(RevocableRing, WhatWasTakenBackBetweenItsStepsIsGivenBack) {
  Shared shared;
  RevocableWriter<Wide> writer(shared.cells);
  RevocableReader<Wide> reader(shared.cells);
  writer.publish_over(Wide{1, 3, {}});
  writer.publish_over(Wide{2, 4, {}});
  writer.publish_over(Wide{3, 5, {}});
  ASSERT_EQ(writer.revoke_oldest(shared.revoked, shared.taken),
            RevocableWriter<Wide>::Revoked::certain);
  std::vector<std::uint64_t> given_back;
  Wide record;  // NOLINT
  const bool claimed = reader.claim(record, shared.taken, shared.revoked, [&](const Wide& one) {
    given_back.push_back(one.number);
    EXPECT_EQ(shared.taken, one.number == 1 ? 0u : 2u) << "passed over, then one in doubt";
    if (one.number == 1) shared.revoked = 2;
  });
  EXPECT_TRUE(claimed);
  EXPECT_EQ(record.number, 3u);
  EXPECT_EQ(given_back, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(reader.missed(), 2u);
  EXPECT_EQ(shared.taken, 3u);
}

TEST(RevocableRing, LiesAreFoundOut) {
  Shared shared;
  RevocableWriter<Wide> writer(shared.cells);
  writer.publish_over(Wide{1, 0, {}});
  writer.publish_over(Wide{2, 0, {}});
  shared.taken = 3;
  EXPECT_EQ(writer.revoke_oldest(shared.revoked, shared.taken),
            RevocableWriter<Wide>::Revoked::broken);
  shared.taken = 1;
  EXPECT_TRUE(writer.refresh(shared.taken));
  shared.taken = 0;
  EXPECT_FALSE(writer.refresh(shared.taken));
  // A reader is told what cannot be: it ends, finds nothing, and touches nothing outside.
  RevocableReader<Wide> reader(shared.cells);
  Wide record;  // NOLINT
  for (const std::uint64_t revoked :
       {std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{1}}) {
    shared.revoked = revoked;
    static_cast<void>(reader.claim(record, shared.taken, shared.revoked, [](const Wide&) {}));
  }
}

struct Lengths {
  std::uint64_t depth;
  std::uint64_t rest_every;  // the reader stands aside after so many; 0: never
};

class RevocableRingStress : public testing::TestWithParam<Lengths> {};

TEST_P(RevocableRingStress, NothingIsTornTwiceOrLostForEver) {
  constexpr std::uint64_t kMessages = 200'000;
  const Lengths lengths = GetParam();
  Shared shared;
  Writer writer(shared, lengths.depth);
  Reader reader(shared);
  std::thread writing([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      writer.publish(i % 4 != 3);
      if (i % 64 == 0) std::this_thread::yield();
    }
    shared.ended.store(true, std::memory_order_release);
  });
  for (bool over = false; !over;) {
    const bool ended = shared.ended.load(std::memory_order_acquire);
    over = !reader.take() && ended;
    if (lengths.rest_every != 0 && reader.got % lengths.rest_every == 0) std::this_thread::yield();
  }
  writing.join();
  reader.give_back_all();
  writer.reclaim();
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(reader.last, kMessages) << "the newest";
  EXPECT_EQ(reader.got + reader.missed(), kMessages);
  EXPECT_EQ(writer.lent(), 0u);
  EXPECT_EQ(writer.unread(), 0u);
  EXPECT_GE(reader.missed(), writer.certain);
  RecordProperty("got", static_cast<int>(reader.got));
  RecordProperty("in_doubt", static_cast<int>(writer.in_doubt));
}

// A hostile writer's: behind the last sequence comes 0, which every cell holds at first.
TEST(RevocableRing, BehindTheLastOfAllSequencesThereIsNothing) {
  Shared shared;
  const RevocableReader<Wide> reader(shared.cells);
  shared.revoked = ~std::uint64_t{0};
  EXPECT_FALSE(reader.can_claim(shared.revoked));
  EXPECT_EQ(reader.count_claimable(shared.revoked), 0u);
}

INSTANTIATE_TEST_SUITE_P(Paces, RevocableRingStress,
                         testing::Values(Lengths{1, 0}, Lengths{2, 0}, Lengths{2, 5},
                                         Lengths{4, 3}));

}  // namespace
}  // namespace gantry
