#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <gantry/memory.hpp>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "core/base/sizes.hpp"

// For the whole program: memory of a pool, of its caches and extents is written when it is freed,
// since ThreadSanitizer compares only the first KiB of freed memory with other threads' accesses.
// Not inlined: the compiler would take malloc() for the wrong partner of delete.
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t size, std::align_val_t) noexcept {
  std::memset(memory, 0xa5, size);
  asm volatile("" : : "r"(memory) : "memory");  // so that the compiler keeps it
  std::free(memory);
}

// Random use against a model that knows only: live blocks never overlap, keep their bytes, are
// aligned, and are counted.
namespace gantry {
namespace {

struct Piece {
  Block block;
  int pattern = 0;
};

void fill(Piece& piece) {
  std::memset(piece.block.bytes().data(), piece.pattern, piece.block.bytes().size());
}
bool is_whole(const Piece& piece) {
  for (const std::byte byte : piece.block.bytes())
    if (byte != static_cast<std::byte>(piece.pattern)) return false;
  return true;
}

class User {
 public:
  User(Pool pool, unsigned seed) : pool_(std::move(pool)), random_(seed) {}

  void step() {
    if (live_.size() < 24 && random_() % 2 == 0)
      take();
    else if (!live_.empty())
      give();
  }
  void finish() {
    while (!live_.empty()) give();
  }

 private:
  void take() {
    const Bytes magnitude = Bytes{1} << random_() % 19;
    const Bytes alignment = random_() % 4 == 0 ? Bytes{1} << random_() % 16 : 0;
    auto block = pool_.allocate(1 + random_() % magnitude, {.alignment = alignment});
    ASSERT_TRUE(block) << block.error().message;
    const auto address = reinterpret_cast<std::uintptr_t>(block->bytes().data());
    if (alignment != 0) {
      ASSERT_EQ(address % alignment, 0u);
    }
    live_.push_back({std::move(*block), static_cast<int>(random_() % 256)});
    fill(live_.back());
  }
  void give() {
    const std::size_t which = random_() % live_.size();
    EXPECT_TRUE(is_whole(live_[which]));
    if (random_() % 5 == 0) static_cast<void>(live_[which].block.share());
    std::swap(live_[which], live_.back());
    live_.pop_back();
  }

  Pool pool_;
  std::mt19937 random_;
  std::vector<Piece> live_;
};

void expect_empty(const Pool& pool) {
  const PoolReport report = pool.report();
  EXPECT_EQ(report.live_bytes, 0u);
  EXPECT_EQ(report.blocks, 0u);
  EXPECT_TRUE(report.holders.empty());
}

TEST(PoolModel, OneThreadWithTrimsBetween) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 64 * kMiB});
    User user(pool, seed);
    for (int i = 0; i < 600; ++i) {
      user.step();
      if (i % 97 == 0) pool.trim();
    }
    user.finish();
    expect_empty(pool);
    pool.trim();
    EXPECT_EQ(pool.report().slab_bytes, 0u);
  }
}

// One thread trims and reports all the time: it steals what the others keep.
TEST(PoolModel, ThreadsDoNotDisturbEachOther) {
  Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 128 * kMiB});
  std::atomic<int> working{3};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed)
    threads.emplace_back([&, seed] {
      User user(pool, seed);
      for (int i = 0; i < 1500; ++i) user.step();
      user.finish();
      --working;
    });
  while (working.load() > 0) {
    pool.trim();
    EXPECT_LE(pool.report().slab_bytes, 128 * kMiB);
  }
  for (auto& thread : threads) thread.join();
  expect_empty(pool);
}

TEST(PoolModel, BlocksMayBeFreedByAnotherThread) {
  Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 16 * kMiB});
  constexpr int kRounds = 400;
  std::vector<Block> box(64);
  std::barrier full(2), empty(2);
  std::thread consumer([&] {
    for (int round = 0; round < kRounds; ++round) {
      full.arrive_and_wait();
      for (Block& block : box) block = Block();
      empty.arrive_and_wait();
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    for (Block& block : box) block = *pool.allocate(4096);
    full.arrive_and_wait();
    empty.arrive_and_wait();
  }
  consumer.join();
  expect_empty(pool);
  EXPECT_LE(pool.report().slab_bytes, 2 * kMiB) << "what one frees the other must get";
}

TEST(PoolModel, ThreadsThatEndLeaveTheirsToOthers) {
  Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 16 * kMiB});
  for (int i = 0; i < 40; ++i) std::thread([&pool] { EXPECT_TRUE(pool.allocate(100'000)); }).join();
  expect_empty(pool);
  EXPECT_EQ(pool.report().slabs, 1u);
  EXPECT_EQ(pool.report().reuses, 39u) << "each takes over from the last";
}

TEST(PoolModel, TheLastBlockOfAnyThreadEndsThePool) {
  for (int round = 0; round < 50; ++round) {
    std::vector<Block> held(4);
    {
      Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 16 * kMiB});
      for (Block& block : held) block = *pool.allocate(5000);
    }
    std::vector<std::thread> threads;
    for (Block& block : held) threads.emplace_back([&block] { block = Block(); });
    for (auto& thread : threads) thread.join();
  }
}

TEST(PoolModel, HandleAndLastBlockMayGoAtOnce) {
  for (int round = 0; round < 500; ++round) {
    auto pool = std::make_optional(*Pool::create({.slab_bytes = kMiB, .budget_bytes = kMiB}));
    Block block = *pool->allocate(5000);
    std::barrier start(2);
    std::thread other([&] {
      start.arrive_and_wait();
      block = Block();
    });
    start.arrive_and_wait();
    pool.reset();
    other.join();
  }
}

// The flag is relaxed, so the pool's lock alone orders the two threads: ThreadSanitizer reports an
// access of the closing thread that follows its unlock, in every run.
TEST(PoolModel, AClosingPoolTouchesNothingAfterItsLock) {
  auto pool = std::make_optional(*Pool::create({.slab_bytes = kMiB, .budget_bytes = kMiB}));
  Block block = *pool->allocate(5000);
  std::atomic<bool> is_closed = false;
  std::thread other([&] {
    while (!is_closed.load(std::memory_order_relaxed)) std::this_thread::yield();
    block = Block();  // ends the pool
  });
  pool.reset();
  is_closed.store(true, std::memory_order_relaxed);
  other.join();
}

}  // namespace
}  // namespace gantry
