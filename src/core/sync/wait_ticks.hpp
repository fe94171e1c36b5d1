#pragma once  // sync/wait_ticks.hpp: how long one thread at a time has waited, the present wait
              // included.

#include "core/base/clock.hpp"
#include "core/sync/counter.hpp"

namespace gantry {

/// One word, so that a reader sees no total that falls when a wait begins or ends. There is one
/// writer; the word may lie in memory of another process, whose nonsense gives a nonsensical total.
class WaitTicks {
 public:
  /// Adds a wait that is over.
  void add(std::uint64_t ticks) noexcept { set(word_.get() + ticks, is_open()); }
  /// A wait goes on since `began`. Does nothing if there is one already.
  void begin(std::uint64_t began) noexcept {
    if (!is_open()) set(word_.get() - began, true);
  }
  /// It is over. Does nothing if there is none.
  void end(std::uint64_t now) noexcept {
    if (is_open()) set(word_.get() + now, false);
  }
  /// Any thread. `now`: see read_ticks().
  [[nodiscard]] std::uint64_t total(std::uint64_t now) const noexcept {
    const std::uint64_t word = word_.get();
    if ((word & kOpen) == 0) return word;
    const std::uint64_t sum = (word + now) & kTicks;
    return sum <= kTicks / 2 ? sum : 0;  // the clock of another CPU is behind the beginning
  }

 private:
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kTicks = kOpen - 1;

  [[nodiscard]] bool is_open() const noexcept { return (word_.get() & kOpen) != 0; }
  void set(std::uint64_t ticks, bool is_open) noexcept {
    word_.set((ticks & kTicks) | (is_open ? kOpen : 0));
  }

  // Bits 0-62: the total; of an open wait (bit 63) the total minus its beginning.
  Counter word_;
};

/// A wait that is counted from begin() to the end of its scope.
class CountedWait {
 public:
  explicit CountedWait(WaitTicks& waits) noexcept : waits_(waits) {}
  CountedWait(WaitTicks& waits, std::uint64_t began) noexcept : waits_(waits) { begin(began); }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;
  ~CountedWait() {
    if (has_begun_) waits_.end(read_ticks());
  }
  void begin(std::uint64_t began) noexcept {
    has_begun_ = true;
    waits_.begin(began);
  }
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }

 private:
  WaitTicks& waits_;
  bool has_begun_ = false;
};

}  // namespace gantry
