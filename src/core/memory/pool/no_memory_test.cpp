#include <gtest/gtest.h>

#include <gantry/memory.hpp>
#include <optional>
#include <vector>

#include "core/base/sizes.hpp"
#include "core/base/test_failing_heap.hpp"
#include "core/memory/fake_registrar_test.hpp"

// The heap fails at its n-th use, for every n until none fails: each call says so or succeeds, and
// nothing is lost.
namespace gantry {
namespace {

using Paused = test::FailingHeap::Paused;

/// Runs `work` with the heap failing at its first, second, ... use. `work` returns whether all of
/// it succeeded, which it must in the end.
template <class Work>
void with_failures(Work work) {
  for (long n = 0; n < 5000; ++n) {
    const test::FailingHeap heap(n, false);
    const bool good = work();
    if (!heap.has_failed()) {
      const Paused paused;
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
    std::optional<Paused> paused(std::in_place);
    Pool pool = *Pool::create({.slab_bytes = kMiB, .budget_bytes = 8 * kMiB});
    std::vector<Block> held;
    held.reserve(8);
    paused.reset();
    bool good = true;
    for (const Bytes size : {100u, 5000u, 300'000u, 900'000u, 2'000'000u}) {
      auto block = pool.allocate(size, {.alignment = size == 5000u ? Bytes{8192} : 0});
      good = good && block.has_value();
      if (block)
        held.push_back(std::move(*block));
      else
        EXPECT_EQ(block.error().code, Code::out_of_memory);
    }
    held.clear();
    paused.emplace();
    EXPECT_EQ(pool.report().blocks, 0u);
    pool.trim();
    EXPECT_EQ(pool.report().slab_bytes, 0u);
    return good;
  });
}

TEST(NoMemory, RegistrationsAreMadeOrNotAndNoneIsLost) {
  std::vector<std::byte> memory(8192);
  with_failures([&] {
    std::optional<Paused> paused(std::in_place);
    const auto registrar = FakeRegistrar::create();
    paused.reset();
    bool good = false;
    {
      auto whole = registrar->register_memory(memory);
      auto part = registrar->register_memory(ByteSpan(memory).subspan(100, 10));
      good = whole.has_value() && part.has_value();
    }
    paused.emplace();
    EXPECT_EQ(registrar->report().registrations, 0u);
    EXPECT_EQ(registrar->live(), 0u);
    return good;
  });
}

}  // namespace
}  // namespace gantry
