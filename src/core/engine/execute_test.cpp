#include "core/engine/execute.hpp"

#include <gtest/gtest.h>

#include <vector>

// What engines build on; what they promise themselves is in tests/conformance.
namespace gantry {
namespace {

std::vector<std::byte> mixed_bytes(Bytes size) {
  std::vector<std::byte> bytes(size);
  for (Bytes i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + (i >> 8));
  return bytes;
}

TEST(Execute, PartsMakeTheWhole) {
  std::vector<std::byte> whole(10'000), parts(10'000);
  const Move one = Move::fill(whole, 0x0123'4567'89ab'cdefu);
  const Move other = Move::fill(parts, 0x0123'4567'89ab'cdefu);
  EXPECT_EQ(execute(one, CacheUse::reader_soon).bytes_done, whole.size());
  Bytes at = 0;
  for (const Bytes size : {1ul, 13ul, 4096ul, 777ul, 5113ul}) {
    EXPECT_EQ(execute(part_of(other, at, size), CacheUse::streaming).bytes_done, size);
    at += size;
  }
  EXPECT_EQ(at, parts.size());
  EXPECT_TRUE(whole == parts);
}

TEST(Execute, ACancelledMoveDoesNotBeginAnotherUnit) {
  const auto source = mixed_bytes(2 * kUnitBytes);
  std::vector<std::byte> copy(source.size());
  const std::atomic<bool> cancelled{true};
  const Executed executed =
      execute_in_units(Move::copy(copy, source), CacheUse::reader_soon, cancelled);
  EXPECT_EQ(executed.cause, Cause::cancelled);
  EXPECT_EQ(executed.bytes_done, 0u);
  EXPECT_EQ(copy, std::vector<std::byte>(source.size()));
}

TEST(Execute, TheCacheIsChosenBySizeUnlessToldOtherwise) {
  std::vector<std::byte> one(1000), two(1000);
  Move move = Move::copy(one, two);
  EXPECT_EQ(resolve_cache(move, 1000), CacheUse::streaming);
  EXPECT_EQ(resolve_cache(move, 1001), CacheUse::reader_soon);
  move.cache = CacheUse::reader_soon;
  EXPECT_EQ(resolve_cache(move, 1), CacheUse::reader_soon);
  move.cache = CacheUse::streaming;
  EXPECT_EQ(resolve_cache(move, ~Bytes{0}), CacheUse::streaming);
}

}  // namespace
}  // namespace gantry
