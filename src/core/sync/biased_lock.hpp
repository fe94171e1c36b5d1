#pragma once  // sync/biased_lock.hpp: a lock that costs its one owner next to nothing.

#include <atomic>
#include <chrono>
#include <thread>

#include "core/base/os/membarrier.hpp"

namespace gantry {

// One thread owns the lock and takes it all the time; others take it rarely and pay for both.
// Owner: busy := 1, then looks at wanted. Thief: wanted := 1, then looks at busy. At least one of
// them sees the other, if each one's store comes before its load. The owner's compiler keeps that
// order by light_fence(); the thief's heavy_fence() makes the owner's processor keep it.
//   I1  The owner is inside only with busy 1 and after seeing wanted 0.
//   I2  The thief is inside only with wanted 1 and after seeing busy 0.
// Pairs. [W] wanted: what the thief did before what the owner does. [B] busy: the other way round.
// [F] the two fences.

/// Thieves exclude each other by a lock of their own, for which a refused owner waits.
class BiasedLock {
 public:
  /// For the owner. False: a thief is inside or about to be; wait for it elsewhere, then try again.
  [[nodiscard]] bool enter() noexcept {
    busy_.store(1, std::memory_order_relaxed);
    light_fence();                                                  // [F]
    if (wanted_.load(std::memory_order_acquire) == 0) return true;  // [W]
    leave();
    return false;
  }
  void leave() noexcept { busy_.store(0, std::memory_order_release); }  // [B]

  /// For a thief: waits until the owner is outside, which takes nanoseconds as long as the owner
  /// runs. An owner that does not run may need our CPU, which yielding gives only to equals.
  void steal() noexcept {
    wanted_.store(1, std::memory_order_relaxed);
    heavy_fence();                                                                   // [F]
    for (unsigned turns = 0; busy_.load(std::memory_order_acquire) != 0; ++turns) {  // [B]
      if (turns < kYields)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void hand_back() noexcept { wanted_.store(0, std::memory_order_release); }  // [W]

 private:
  static constexpr unsigned kYields = 1000;
  std::atomic<unsigned> busy_{0};
  std::atomic<unsigned> wanted_{0};
};

}  // namespace gantry
