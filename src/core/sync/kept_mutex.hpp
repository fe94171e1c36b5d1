#pragma once  // sync/kept_mutex.hpp: a mutex that one thread keeps until another one asks for it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/os/cpu.hpp"
#include "core/base/os/membarrier.hpp"

namespace gantry {

// An uncontended std::mutex takes two atomic read-modify-writes and two calls. The keeper's short
// way takes neither: it makes `turns_` odd, then looks whether it is still the keeper. Another
// thread takes the long way: it locks `long_`, makes `keeper_` null, then waits until `turns_` is
// even. At least one of the two sees the other, if each one's store comes before its load: the
// keeper's compiler sees to that by light_fence(), and the other thread's heavy_fence() makes the
// keeper's processor do so. When the other thread is done, it gives `keeper_` back.
//   I1  The keeper is inside by the short way only while `turns_` is odd, and only if it found its
//       mark in `keeper_` after it had made `turns_` odd.
//   I2  A thread is inside by the long way only while it holds `long_`. It found `turns_` even
//       after it had made `keeper_` null, or found `keeper_` null, or is the chosen thread itself.
//   I3  `chosen_` changes once, from nobody to a thread. So `turns_` has one writer: a thread that
//       was stopped within lock() and goes on after another one was chosen would spoil it.
//   I4  `keeper_` is null or `chosen_`, and is written under `long_`.
//   I5  `is_long_` is true exactly while a thread is inside by the long way.
// Pairs. [K] keeper_: the other thread's work before the keeper's. [T] turns_: the other way round.
// [F] the two fences. Model: tests/model/kept_mutex.pml.

/// Meets Lockable. Where others come often compared with the keeper, it is a std::mutex.
class KeptMutex {
 public:
  void lock() {
    if (!lock_briefly()) [[unlikely]]
      lock_long();
  }
  /// The same; the first thread that calls it is chosen to be the keeper.
  void lock_and_keep() {
    if (lock_briefly()) [[likely]]
      return;
    lock_long();
    if (chosen_ == nullptr) {  // I3
      chosen_ = mine();
      alone_ = kAlone;
    }
  }
  [[nodiscard]] bool try_lock() {
    if (lock_briefly()) return true;
    if (!long_.try_lock()) return false;
    enter_long();
    return true;
  }
  void unlock() noexcept {
    if (is_long_) [[unlikely]]
      return unlock_long();
    const std::uint64_t turn = turns_.load(std::memory_order_relaxed);  // own word
    GANTRY_DEBUG_ASSERT(turn % 2 == 1);                                 // I1
    turns_.store(turn + 1, std::memory_order_release);                  // [T]
  }

 private:
  friend struct InvariantBreaker<KeptMutex>;

  // A section by the short way saves some 15 ns; another thread's visit costs both some
  // microseconds, on a virtual machine up to ten.
  static constexpr std::uint64_t kWorth = 512;  // sections of the keeper between two visits
  static constexpr unsigned kAlone = 512;  // the keeper's own long ways until it has the short one
  static constexpr unsigned kYields = 1000;
  static constexpr unsigned kTries = 32;
  static constexpr unsigned kTurnsATry = 64;  // about a microsecond

  // Relaxed loads: what is not this thread's own mark is somebody else's, whichever it is.
  [[nodiscard]] bool lock_briefly() noexcept {
    if (keeper_.load(std::memory_order_relaxed) != mine()) return false;
    const std::uint64_t turn = turns_.load(std::memory_order_relaxed);  // own word
    turns_.store(turn + 1, std::memory_order_relaxed);
    light_fence();                                            // [F]
    if (keeper_.load(std::memory_order_acquire) == mine()) {  // I1 [K]
      GANTRY_DEBUG_ASSERT(!is_long_);                         // I5
      return true;
    }
    turns_.store(turn + 2, std::memory_order_release);  // [T]
    return false;
  }

  [[gnu::noinline]] void lock_long() {
    if (!lock_soon()) long_.lock();
    enter_long();
  }
  // Sections are short. A thread that sleeps for one costs the holder a futex_wake(2), which takes
  // longer than many sections; and when it has woken up, a holder that comes again has the mutex
  // already, so it sleeps once more.
  [[nodiscard]] bool lock_soon() {
    for (unsigned tries = 0; tries < kTries; ++tries) {
      if (long_.try_lock()) return true;
      if (tries < kTries / 2)
        for (unsigned turns = 0; turns < kTurnsATry; ++turns) cpu_relax();
      else
        std::this_thread::yield();  // its holder may need this CPU
    }
    return false;
  }
  [[gnu::noinline]] void unlock_long() noexcept {
    is_long_ = false;  // I5
    if (chosen_ == mine()) {
      if (keeper_.load(std::memory_order_relaxed) == nullptr && ++alone_ >= kAlone) give_back();
    } else if (was_taken_) {
      was_taken_ = false;
      const std::uint64_t turns = turns_.load(std::memory_order_relaxed);
      if (turns - turns_at_last_ >= 2 * kWorth) give_back();
      turns_at_last_ = turns;
      alone_ = 0;
    } else {
      alone_ = 0;
    }
    long_.unlock();
  }
  // I2
  void enter_long() noexcept {
    const char* const keeper = keeper_.load(std::memory_order_relaxed);  // I4
    if (keeper != nullptr && keeper != mine()) {
      GANTRY_DEBUG_ASSERT(keeper == chosen_);  // I4
      keeper_.store(nullptr, std::memory_order_relaxed);
      heavy_fence();  // [F]
      await_keeper();
      was_taken_ = true;
    }
    GANTRY_DEBUG_ASSERT(!is_long_);  // I5
    is_long_ = true;
  }
  // Nanoseconds as long as the keeper runs. If it does not, it may need this CPU, which yielding
  // gives to equals only.
  void await_keeper() const noexcept {
    for (unsigned turns = 0; turns_.load(std::memory_order_acquire) % 2 != 0; ++turns)  // [T]
      turns < kYields ? std::this_thread::yield()
                      : std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void give_back() noexcept { keeper_.store(chosen_, std::memory_order_release); }  // [K]

  /// An address that no other living thread has.
  [[nodiscard]] static const char* mine() noexcept { return &mark; }
  [[gnu::tls_model("initial-exec"),
    gnu::visibility("default")]] static inline thread_local char mark =
      0;  // one for all components

  std::atomic<const char*> keeper_{nullptr};
  std::atomic<std::uint64_t> turns_{0};  // I3: written by the chosen thread
  bool is_long_ = false;                 // under the lock
  bool was_taken_ = false;               // under long_, as are those below; from the keeper
  const char* chosen_ = nullptr;
  std::uint64_t turns_at_last_ = 0;  // when another thread took it last
  unsigned alone_ = 0;               // long ways of the chosen thread, with nobody else between
  std::mutex long_;
};

}  // namespace gantry
