#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <gantry/memory.hpp>
#include <new>
#include <vector>

#include "core/base/sizes.hpp"
#include "core/memory/fake_registrar_test.hpp"

// The heap fails at its n-th use, for every n until none fails: each call says so or succeeds, and
// nothing is lost.
namespace {

std::atomic<long> fails_in{-1};  // allocations until one fails; negative: none does

bool must_fail() {
  return fails_in.load(std::memory_order_relaxed) >= 0 &&
         fails_in.fetch_sub(1, std::memory_order_relaxed) == 0;
}

void* take(std::size_t size, std::size_t alignment) {
  void* const memory =
      must_fail() ? nullptr
                  : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: the compiler would take malloc() for the wrong partner of delete.
#define GANTRY_APART __attribute__((noinline))
GANTRY_APART void* operator new(std::size_t size) {
  return take(size, alignof(std::max_align_t));
}
GANTRY_APART void* operator new(std::size_t size, std::align_val_t alignment) {
  return take(size, static_cast<std::size_t>(alignment));
}
GANTRY_APART void operator delete(void* memory) noexcept {
  std::free(memory);
}
GANTRY_APART void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
GANTRY_APART void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
GANTRY_APART void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace gantry {
namespace {

/// Runs `work` with the heap failing at its first, second, ... use. `work` returns whether all of
/// it succeeded, which it must in the end.
template <class Work>
void with_failures(Work work) {
  for (long n = 0; n < 5000; ++n) {
    fails_in = n;
    const bool good = work();
    const bool none_failed = fails_in.exchange(-1) >= 0;
    if (none_failed) {
      EXPECT_TRUE(good);
      EXPECT_GT(n, 0) << "the heap is used, and was made to fail";
      return;
    }
  }
  FAIL() << "it never came to an end";
}

TEST(NoMemory, APoolIsMadeOrNot) {
  const PoolOptions options{.slab_bytes = kMiB, .name = "a name of some length"};
  with_failures([&] { return Pool::create(options).has_value(); });
}

TEST(NoMemory, BlocksAreHandedOutOrNotAndNoneIsLost) {
  with_failures([] {
    const long armed = fails_in.exchange(-1);
    Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 8 * kMiB});
    fails_in = armed;
    bool good = true;
    {
      std::vector<Block> held;
      const long rest = fails_in.exchange(-1);
      held.reserve(8);
      fails_in = rest;
      for (const Bytes size : {100u, 5000u, 300'000u, 900'000u, 2'000'000u}) {
        auto block = pool.allocate(size, {.alignment = size == 5000u ? Bytes{8192} : 0});
        good = good && block.has_value();
        if (block)
          held.push_back(std::move(*block));
        else
          EXPECT_EQ(block.error().code, Code::out_of_memory);
      }
    }
    const long rest = fails_in.exchange(-1);
    EXPECT_EQ(pool.report().blocks, 0u);
    pool.trim();
    EXPECT_EQ(pool.report().slab_bytes, 0u);
    fails_in = rest;
    return good;
  });
}

TEST(NoMemory, RegistrationsAreMadeOrNotAndNoneIsLost) {
  std::vector<std::byte> memory(8192);
  with_failures([&] {
    const long armed = fails_in.exchange(-1);
    const auto registrar = FakeRegistrar::create();
    fails_in = armed;
    bool good = false;
    {
      auto whole = registrar->register_memory(memory);
      auto part = registrar->register_memory(ByteSpan(memory).subspan(100, 10));
      good = whole.has_value() && part.has_value();
    }
    const long rest = fails_in.exchange(-1);
    EXPECT_EQ(registrar->report().registrations, 0u);
    EXPECT_EQ(registrar->live(), 0u);
    fails_in = rest;
    return good;
  });
}

}  // namespace
}  // namespace gantry
