#include "core/channel/producer/rotation.hpp"

#include <gtest/gtest.h>

#include <map>

namespace gantry {
namespace {

constexpr Bytes kPlenty = Bytes{64} << 20;

/// Sends messages of one size, each of which takes what `costs` says of the places in use.
class Traffic {
 public:
  Traffic(Rotation& rotation, Bytes size) : rotation_(rotation), size_(size) {}
  void send(int messages, const std::map<unsigned, std::uint64_t>& costs) {
    for (; messages > 0; --messages) {
      const unsigned places = rotation_.places(size_);
      ++used_[places];
      rotation_.took(size_, costs.at(places));
    }
  }
  [[nodiscard]] int used(unsigned places) { return used_[places]; }

 private:
  Rotation& rotation_;
  Bytes size_;
  std::map<unsigned, int> used_;
};

constexpr int kTrial =
    int{Rotation::first_idle(0)} + int{Rotation::kChoices} * (Rotation::kSamples + int{kMaxSlots});

TEST(Rotations, BeginWithTheLeast) {
  const Rotation rotation(8, kPlenty);
  for (const Bytes size : {1u, 100u, 4096u, 1u << 20, (1u << 20) + 1, 1u << 30})
    EXPECT_EQ(rotation.places(size), 8u) << size;
  EXPECT_FALSE(rotation.tell(4096, 1).is_measured);
}

TEST(Rotations, GoWhereCopiesAreQuickest) {
  Rotation rotation(8, kPlenty);
  Traffic traffic(rotation, 4096);
  traffic.send(kTrial, {{1, 120}, {8, 100}, {16, 90}, {32, 60}, {64, 80}});
  EXPECT_EQ(rotation.places(4096), 32u);
  EXPECT_EQ(rotation.places(2049), 32u) << "the same class";
  EXPECT_EQ(rotation.places(2048), 8u) << "another one";
  const Rotation::Told told = rotation.tell(4096, 2);
  EXPECT_TRUE(told.is_measured);
  EXPECT_FALSE(told.is_short_of_memory);
  EXPECT_DOUBLE_EQ(told.ns_per_kib[3], 60 * 2 / 4.0);
}

TEST(Rotations, StayWhereTheGainIsSmall) {
  Rotation rotation(8, kPlenty);
  Traffic(rotation, 4096).send(kTrial, {{1, 96}, {8, 100}, {16, 99}, {32, 98}, {64, 97}});
  EXPECT_EQ(rotation.places(4096), 8u);
}

// On some processors what lies in the reader's cache is the quickest to write.
TEST(Rotations, MayEndInASinglePlace) {
  Rotation rotation(8, kPlenty);
  Traffic traffic(rotation, 1 << 20);
  EXPECT_FALSE(rotation.goes_back(1 << 20));
  traffic.send(kTrial, {{1, 70}, {8, 100}, {16, 90}, {32, 80}, {64, 80}});
  EXPECT_EQ(rotation.places(1 << 20), 1u);
  EXPECT_TRUE(rotation.goes_back(1 << 20));
  EXPECT_EQ(rotation.most_places(), 8u) << "of the other sizes";
}

// A large message is tried out within two hundred of them, a small one later.
TEST(Rotations, LargeOnesAreTriedSooner) {
  const std::map<unsigned, std::uint64_t> costs{{1, 70}, {8, 100}, {16, 90}, {32, 80}, {64, 80}};
  for (const Bytes size : {Bytes{1} << 20, Bytes{1} << 10}) {
    Rotation rotation(8, kPlenty);
    Traffic(rotation, size).send(220, costs);
    EXPECT_EQ(rotation.tell(size, 1).is_measured, size == 1 << 20);
  }
}

// The largest that rests, and the first that does not.
TEST(Rotations, MeasureUpToTheLargestSpare) {
  Rotation rotation(8, 16 * SlotTable::kLargestSpare);
  const std::map<unsigned, std::uint64_t> costs{{1, 120}, {8, 100}, {16, 50}, {32, 10}, {64, 10}};
  Traffic(rotation, SlotTable::kLargestSpare).send(kTrial, costs);
  EXPECT_EQ(rotation.places(SlotTable::kLargestSpare), 16u) << "32 take too much";
  Traffic(rotation, SlotTable::kLargestSpare + 1).send(kTrial, costs);
  EXPECT_EQ(rotation.places(SlotTable::kLargestSpare + 1), 8u);
  EXPECT_FALSE(rotation.tell(SlotTable::kLargestSpare + 1, 1).is_measured);
  EXPECT_TRUE(rotation.goes_back(SlotTable::kLargestSpare + 1));
}

// The sizes of a start, for instance, which never come again.
TEST(Rotations, GiveUpATrialWhoseSizeIsNotSentAnyMore) {
  Rotation rotation(8, kPlenty);
  const std::map<unsigned, std::uint64_t> costs{{1, 120}, {8, 100}, {16, 90}, {32, 60}, {64, 80}};
  Traffic(rotation, 1000).send(int{Rotation::first_idle(10)} + 1, costs);
  Traffic(rotation, 4096).send(Rotation::kMostOthers + kTrial, costs);
  EXPECT_EQ(rotation.places(4096), 32u);
  EXPECT_FALSE(rotation.tell(1000, 1).is_measured);
}

// Its first turn brings its pages in: it says nothing of the next ones.
TEST(Rotations, LeaveTheFirstTurnOut) {
  Rotation rotation(8, kPlenty);
  std::map<unsigned, int> turns;
  for (int i = 0; i < kTrial; ++i) {
    const unsigned places = rotation.places(4096);
    const bool is_first = places > 8 && turns[places]++ < static_cast<int>(places);
    rotation.took(4096, is_first ? 10'000 : places == 64 ? 50 : 100);
  }
  EXPECT_EQ(rotation.places(4096), 64u);
}

TEST(Rotations, AreNotMisledByAFewInterruptions) {
  Rotation rotation(8, kPlenty);
  for (int i = 0; i < kTrial; ++i) {
    const unsigned places = rotation.places(4096);
    rotation.took(4096, i % 5 == 0 ? 100'000 : places == 64 ? 50 : 100);
  }
  EXPECT_EQ(rotation.places(4096), 64u);
}

TEST(Rotations, FollowWhatChanges) {
  Rotation rotation(8, kPlenty);
  Traffic traffic(rotation, 4096);
  traffic.send(kTrial, {{1, 120}, {8, 100}, {16, 90}, {32, 60}, {64, 80}});
  ASSERT_EQ(rotation.places(4096), 32u);
  traffic.send(Rotation::kLeastIdle + kTrial, {{1, 130}, {8, 50}, {16, 90}, {32, 110}, {64, 120}});
  EXPECT_EQ(rotation.places(4096), 8u);
}

TEST(Rotations, TryLessAndLessOften) {
  Rotation rotation(8, kPlenty);
  Traffic traffic(rotation, 4096);
  constexpr int kMany = 1 << 20;
  traffic.send(kMany, {{1, 100}, {8, 100}, {16, 100}, {32, 100}, {64, 100}});
  EXPECT_GT(traffic.used(64), 0);
  EXPECT_LT(traffic.used(16) + traffic.used(32) + traffic.used(64), kMany / 200);
}

TEST(Rotations, TakeNoMoreMemoryThanTheyMay) {
  Rotation rotation(8, 32 * 4096);
  Traffic traffic(rotation, 4096);
  traffic.send(100'000, {{1, 120}, {8, 100}, {16, 90}, {32, 60}, {64, 10}});
  EXPECT_EQ(rotation.places(4096), 32u);
  EXPECT_EQ(traffic.used(64), 0);
  EXPECT_TRUE(rotation.tell(4096, 1).is_short_of_memory);
  EXPECT_EQ(rotation.most_places(), 32u);
}

TEST(Rotations, OfOneClassAtATime) {
  Rotation rotation(8, kPlenty);
  int both = 0;
  for (int i = 0; i < 4 * kTrial; ++i) {
    both += rotation.places(4096) != 8 && rotation.places(65536) != 8 ? 1 : 0;
    rotation.took(4096, 100);
    rotation.took(65536, 1000);
  }
  EXPECT_EQ(both, 0);
  EXPECT_TRUE(rotation.tell(4096, 1).is_measured && rotation.tell(65536, 1).is_measured);
}

TEST(Rotations, WithAllSlotsAsCreditsTryASinglePlaceAlone) {
  Rotation rotation(kMaxSlots, kPlenty);
  Traffic traffic(rotation, 4096);
  traffic.send(10'000, {{1, 100}, {kMaxSlots, 100}});
  EXPECT_EQ(rotation.places(4096), kMaxSlots);
  EXPECT_EQ(traffic.used(1) + traffic.used(kMaxSlots), 10'000);
}

TEST(Rotations, SayWhenATrialHasEnded) {
  Rotation rotation(8, kPlenty);
  int ended = 0;
  for (int i = 0; i < kTrial; ++i) ended += rotation.took(4096, 100) ? 1 : 0;
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(rotation.most_places(), 8u);
}

}  // namespace
}  // namespace gantry
