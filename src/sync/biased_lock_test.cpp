#include "sync/biased_lock.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace gantry {
namespace {

// Two plain numbers that are equal whenever nobody is inside; torn when two are.
struct Guarded {
  BiasedLock lock;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t torn = 0;

  void work() {
    torn += first != second;
    ++first;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++second;
  }
};

TEST(BiasedLock, OwnerAndThiefAreNeverInsideTogether) {
  constexpr std::uint64_t kSteals = 30'000;
  Guarded guarded;
  std::atomic<bool> done{false};
  std::uint64_t owned = 0;
  std::thread owner([&] {
    while (!done.load(std::memory_order_relaxed)) {
      if (!guarded.lock.enter()) {
        std::this_thread::yield();
        continue;
      }
      guarded.work();
      ++owned;
      guarded.lock.leave();
    }
  });
  for (std::uint64_t i = 0; i < kSteals; ++i) {
    guarded.lock.steal();
    guarded.work();
    guarded.lock.hand_back();
  }
  done = true;
  owner.join();
  EXPECT_EQ(guarded.torn, 0u);
  EXPECT_EQ(guarded.first, kSteals + owned);
}

TEST(BiasedLock, TheOwnerIsRefusedWhileAThiefIsInside) {
  BiasedLock lock;
  lock.steal();
  EXPECT_FALSE(lock.enter());
  lock.hand_back();
  EXPECT_TRUE(lock.enter());
  lock.leave();
}

}  // namespace
}  // namespace gantry
