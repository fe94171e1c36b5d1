#include "core/sync/spsc/release_board.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "core/sync/spsc/sequence_ring.hpp"

// Property: a slot's memory is never written while the borrower still reads it, in whatever order
// slots come back. Method: a lender that lends any released slot and fills it, a borrower that
// keeps two messages in hand and gives back the newer one first; every word must be the message's
// number. Seen to fail with [R] relaxed (tsan preset: data race) and with I1's equality as "at
// least".
namespace gantry {
namespace {

constexpr std::size_t kSlots = 4;
using Payload = std::array<std::uint64_t, 8>;

struct Shared {
  std::array<RingCell<std::size_t>, 8> cells{};  // the record is the slot
  alignas(64) std::atomic<std::uint64_t> taken{0};
  ReleaseBoard<kSlots> board;
  std::array<Payload, kSlots> memory{};
};

class Lender {
 public:
  explicit Lender(Shared& shared) : shared_(shared), ring_(shared.cells) {}

  void lend(std::uint64_t number) {
    std::optional<std::size_t> slot;
    while (!(slot = free_slot())) std::this_thread::yield();
    ASSERT_TRUE(ring_.refresh(shared_.taken));
    shared_.memory[*slot].fill(number);
    lent_[*slot] = ring_.publish([&](std::size_t& record) { record = *slot; });
  }

 private:
  std::optional<std::size_t> free_slot() const {
    for (std::size_t i = 0; i < kSlots; ++i)
      if (lent_[i] == 0 || shared_.board.is_released(i, lent_[i])) return i;
    return std::nullopt;
  }
  Shared& shared_;
  RingWriter<std::size_t> ring_;
  std::array<std::uint64_t, kSlots> lent_{};
};

struct Held {
  std::size_t slot;
  std::uint64_t number;
};

std::uint64_t wrong_words(const Shared& shared, const Held& held) {
  std::uint64_t wrong = 0;
  for (const std::uint64_t word : shared.memory[held.slot]) wrong += word != held.number;
  return wrong;
}

TEST(ReleaseBoard, NoSlotIsWrittenWhileItIsHeld) {
  constexpr std::uint64_t kMessages = 60'000;
  Shared shared;
  std::thread lending([&shared] {
    Lender lender(shared);
    for (std::uint64_t i = 1; i <= kMessages; ++i) lender.lend(i);
  });
  RingReader<std::size_t> reader(shared.cells);
  const auto next = [&] {
    while (!reader.ready()) std::this_thread::yield();
    const Held held{reader.next(), reader.taken() + 1};
    reader.take();
    reader.report(shared.taken);
    return held;
  };
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kMessages / 2; ++i) {
    const Held older = next();
    const Held newer = next();
    wrong += wrong_words(shared, newer);
    shared.board.release(newer.slot, newer.number);
    wrong += wrong_words(shared, older);
    shared.board.release(older.slot, older.number);
  }
  lending.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(ReleaseBoard, OnlyTheVeryNumberCounts) {
  ReleaseBoard<kSlots> board;
  board.release(2, 17);
  EXPECT_TRUE(board.is_released(2, 17));
  EXPECT_FALSE(board.is_released(2, 16));
  EXPECT_FALSE(board.is_released(2, 18));
  EXPECT_FALSE(board.is_released(1, 17));
}

}  // namespace
}  // namespace gantry
