#include "core/sync/biased_lock.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "core/sync/test_torn.hpp"

namespace gantry {
namespace {

using Guarded = test::Torn<BiasedLock>;

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
