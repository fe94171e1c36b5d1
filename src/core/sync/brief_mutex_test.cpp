#include "core/sync/brief_mutex.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "core/sync/test_torn.hpp"

namespace gantry {
namespace {

struct Pair : test::Torn<BriefMutex> {
  // True: by the short way.
  bool enter_and_work() {
    if (lock.try_lock_briefly()) {
      work();
      lock.unlock_briefly();
      return true;
    }
    const std::lock_guard held(lock);
    work();
    return false;
  }
};

TEST(BriefMutex, WhoCameFirstHasTheShortWayUntilAnotherComes) {
  Pair pair;
  EXPECT_FALSE(pair.enter_and_work()) << "nobody's yet";
  EXPECT_TRUE(pair.enter_and_work());
  const std::unique_lock other_way(pair.lock);
  EXPECT_TRUE(other_way.owns_lock()) << "the owner may come the long way, too";
  std::thread([&] { EXPECT_FALSE(pair.lock.try_lock()); }).join();
}

TEST(BriefMutex, AnotherEndsTheShortWayForAll) {
  Pair pair;
  EXPECT_FALSE(pair.enter_and_work());
  EXPECT_TRUE(pair.enter_and_work());
  std::thread([&] { EXPECT_FALSE(pair.enter_and_work()); }).join();
  EXPECT_FALSE(pair.enter_and_work());
  EXPECT_TRUE(pair.lock.try_lock());
  pair.lock.unlock();
}

// The other comes once to each of many, at any moment of the owner's work. Seen to fail without
// heavy_fence(), and without steal().
TEST(BriefMutex, TheOwnerAndTheFirstOtherAreNeverInsideTogether) {
  constexpr std::size_t kMutexes = 4000;
  std::vector<std::unique_ptr<Pair>> pairs(kMutexes);
  for (auto& one : pairs) one = std::make_unique<Pair>();
  std::atomic<std::size_t> at{0}, begun{0};
  std::uint64_t owned = 0;
  std::thread owner([&] {
    for (std::size_t i = 0; i < kMutexes; ++i)
      for (bool first = true; at.load(std::memory_order_acquire) == i; first = false) {
        pairs[i]->enter_and_work();
        ++owned;
        if (first) begun.store(i + 1, std::memory_order_release);
      }
  });
  for (std::size_t i = 0; i < kMutexes; ++i) {
    while (begun.load(std::memory_order_acquire) <= i) std::this_thread::yield();
    for (std::size_t turn = 0; turn < i % 50; ++turn)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    EXPECT_FALSE(pairs[i]->enter_and_work());
    EXPECT_FALSE(pairs[i]->enter_and_work());
    at.store(i + 1, std::memory_order_release);
  }
  owner.join();
  std::uint64_t sum = 0, torn = 0;
  for (const auto& one : pairs) sum += one->first, torn += one->torn + (one->first != one->second);
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(sum, owned + 2 * kMutexes);
}

}  // namespace
}  // namespace gantry
