// The registration cache that Gantry is compared with does what such a cache does.

#include "lru_cache.hpp"

#include <gtest/gtest.h>

#include <array>

namespace gantry::bench {
namespace {

constexpr Bytes kPage = 4096;

/// Registers nothing, but counts.
class CountingRegistrar final : public Registrar {
 public:
  explicit CountingRegistrar(std::uint64_t most) : Registrar("counting", {}), most_(most) {}

 protected:
  Result<Keys> do_register(ByteSpan, DeviceAccess) override {
    if (alive_ == most_) return tl::unexpected<Error>({Code::out_of_memory, "full", ""});
    return Keys{++alive_, 0};
  }
  int do_unregister(const Keys&, ByteSpan) noexcept override {
    --alive_;
    return 0;
  }

 private:
  std::uint64_t most_;
  std::uint64_t alive_ = 0;
};

class LruCacheTest : public ::testing::Test {
 protected:
  ByteSpan pages(Bytes first, Bytes count) {
    return ByteSpan(memory_).subspan(first * kPage, count * kPage);
  }
  void use(LruCache& cache, ByteSpan memory) { cache.put(*cache.get(memory).value()); }
  std::uint64_t made() const { return registrar_->report().made; }

  alignas(kPage) static inline std::array<std::byte, 8 * kPage> memory_;
  std::shared_ptr<Registrar> registrar_ = std::make_shared<CountingRegistrar>(3);
};

TEST_F(LruCacheTest, RegistersWholePagesOnce) {
  LruCache cache(registrar_, 8 * kPage);
  use(cache, pages(0, 1).subspan(100, 8));
  use(cache, pages(0, 1).subspan(2000, 8));
  EXPECT_EQ(made(), 1u);
  EXPECT_EQ(registrar_->report().bytes, kPage);
}

TEST_F(LruCacheTest, ForgetsTheLongestUnusedWhenItKnowsTooMuch) {
  LruCache cache(registrar_, 2 * kPage);
  use(cache, pages(0, 1));
  use(cache, pages(2, 1));
  use(cache, pages(0, 1));
  use(cache, pages(4, 1));  // page 2 goes
  use(cache, pages(0, 1));
  EXPECT_EQ(made(), 3u);
  use(cache, pages(2, 1));
  EXPECT_EQ(made(), 4u);
  EXPECT_EQ(registrar_->report().bytes, 2 * kPage);
}

TEST_F(LruCacheTest, ForgetsOneWhenTheDeviceIsFullButNoneInUse) {
  LruCache cache(registrar_, 8 * kPage);
  auto* const first = cache.get(pages(0, 1)).value();
  auto* const second = cache.get(pages(2, 1)).value();
  use(cache, pages(4, 1));
  auto* const fourth = cache.get(pages(6, 1)).value();  // in place of the third
  EXPECT_FALSE(cache.get(pages(4, 1)));
  for (auto* const entry : {first, second, fourth}) cache.put(*entry);
  EXPECT_TRUE(cache.get(pages(4, 1)));
}

TEST_F(LruCacheTest, GrowsAnEntryThatIsTooShort) {
  LruCache cache(registrar_, 8 * kPage);
  use(cache, pages(1, 1));
  use(cache, pages(3, 1));
  use(cache, pages(1, 3));
  EXPECT_EQ(registrar_->report().registrations, 1u);
  EXPECT_EQ(registrar_->report().bytes, 3 * kPage);
}

}  // namespace
}  // namespace gantry::bench
