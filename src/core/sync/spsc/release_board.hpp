#pragma once  // sync/spsc/release_board.hpp: memory lent by slot and given back in any order.

#include <array>
#include <atomic>
#include <cstdint>

namespace gantry {

/// One word a slot, in the borrower's memory; the lender maps it read-only. The lender lends a slot
/// under a number that only grows, and takes it back when the word is that very number.
//   I1  A word equal to the number a slot was last lent under means: given back. Anything else, old
//       or invented, means nothing, so a dead or hostile borrower frees only what it had.
// Pair [R]: the borrower's reads of the memory before release(); the lender's next writes after
// is_released(). The word is also half of a sleep handshake (sync/wait_flag.hpp), hence seq_cst.
template <std::size_t kSlots>
class ReleaseBoard {
 public:
  /// For the borrower, any thread.
  void release(std::size_t slot, std::uint64_t number) noexcept {
    words_[slot].store(number, std::memory_order_seq_cst);  // [R]
  }
  /// For the lender.
  [[nodiscard]] bool is_released(std::size_t slot, std::uint64_t number) const noexcept {
    return words_[slot].load(std::memory_order_seq_cst) == number;  // [R] I1
  }

 private:
  std::array<std::atomic<std::uint64_t>, kSlots> words_{};
};

}  // namespace gantry
