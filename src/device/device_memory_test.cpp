#include "device/device_memory.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

/// Counts those that are alive.
struct Piece {
  explicit Piece(int& count) : alive(&count) { ++count; }
  Piece(Piece&& other) noexcept : alive(std::exchange(other.alive, nullptr)) {}
  Piece& operator=(Piece&&) = delete;
  ~Piece() {
    if (alive != nullptr) --*alive;
  }
  int* alive;
};

TEST(KeptMemory, GivesWhatHasJustTheRoomAndTheYoungestFirst) {
  KeptMemory<Piece> kept(1000);
  int first = 0, second = 0;
  kept.give(Piece(first), 100);
  kept.give(Piece(second), 100);
  EXPECT_EQ(kept.bytes(), 200u);
  EXPECT_FALSE(kept.take(99));
  EXPECT_FALSE(kept.take(101));
  EXPECT_EQ(kept.take(100)->alive, &second);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(kept.bytes(), 100u);
  kept.clear();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(kept.bytes(), 0u);
}

TEST(KeptMemory, KeepsNoMoreThanItsLimitAndLetsTheOldestGo) {
  KeptMemory<Piece> kept(300);
  int old = 0, young = 0, huge = 0;
  kept.give(Piece(old), 200);
  kept.give(Piece(young), 200);
  kept.give(Piece(huge), 301);
  EXPECT_EQ(old, 0);
  EXPECT_EQ(young, 1);
  EXPECT_EQ(huge, 0);
  EXPECT_EQ(kept.bytes(), 200u);
}

TEST(KeptMemory, SizesThatAreNearHaveTheSameRoom) {
  const auto room = KeptMemory<Piece>::room_for;
  for (Bytes size = 1; size < Bytes{1} << 40; size += size / 3 + 1) {
    EXPECT_GE(room(size), size);
    EXPECT_LE(room(size), size + size / 8 + 4096);
    EXPECT_EQ(room(room(size)), room(size));
  }
  EXPECT_EQ(room(1'000'000), room(1'020'000));
}

}  // namespace
}  // namespace gantry
