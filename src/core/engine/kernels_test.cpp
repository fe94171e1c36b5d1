#include "core/engine/kernels.hpp"

#include <gtest/gtest.h>

#include <gantry/engine.hpp>
#include <random>
#include <vector>

namespace gantry {
namespace {

std::vector<std::byte> numbered(Bytes size) {
  std::vector<std::byte> bytes(size);
  for (Bytes i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 131 + (i >> 8));
  return bytes;
}

// Sizes around every border of the kernels: vectors, lines, pages, eight pages.
const std::vector<Bytes> kSizes{0,     1,     63,    64,    127,   128,    511,
                                512,   513,   4095,  4096,  4160,  32767,  32768,
                                32769, 32896, 65536, 70001, 99999, 300'000};

TEST(Kernels, AStreamedCopyIsACopyAtEverySizeAndAlignmentAndWritesNothingElse) {
  const auto source = numbered(300'200);
  for (const Bytes size : kSizes)
    for (const Bytes to : {0, 1, 17, 63})
      for (const Bytes from : {0, 3, 64}) {
        std::vector<std::byte> got(size + 200, std::byte{0xee}), expected = got;
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), size,
                    expected.begin() + static_cast<std::ptrdiff_t>(to));
        stream_copy(got.data() + to, source.data() + from, size);
        ASSERT_TRUE(got == expected) << size << " bytes from " << from << " to " << to;
      }
}

// Of the first megabytes of a process pieces are copied by each way, which is the trial.
TEST(Kernels, BothWaysOfTheTrialCopyEveryByte) {
  const auto source = numbered((8 << 20) + 100);
  for (int i = 0; i < 2; ++i) {
    std::vector<std::byte> got(source.size(), std::byte{0xee}), expected = got;
    std::copy(source.begin() + 7, source.end() - 20, expected.begin() + 3);
    stream_copy(got.data() + 3, source.data() + 7, source.size() - 27);
    ASSERT_TRUE(got == expected);
  }
}

TEST(Kernels, FillsRepeatThePatternFromTheFront) {
  for (const std::uint64_t pattern : {0x0102'0304'0506'0708ull, 0x4242'4242'4242'4242ull})
    for (const Bytes size : kSizes)
      for (const Bytes to : {0, 1, 17, 63})
        for (auto* fill : {&stream_fill, &cached_fill}) {
          std::vector<std::byte> got(size + 200, std::byte{0xee}), expected = got;
          for (Bytes i = 0; i < size; ++i)
            expected[to + i] = static_cast<std::byte>(pattern >> i % 8 * 8);
          fill(got.data() + to, pattern, size);
          ASSERT_TRUE(got == expected) << size << " bytes to " << to;
        }
}

TEST(Kernels, TheCopierCopiesBelowAndAboveItsBorder) {
  const auto source = numbered(100'000);
  for (const Bytes border : {Bytes{1}, Bytes{50'000}, Bytes{1'000'000}}) {
    std::vector<std::byte> copy(source.size());
    Copier{border}(copy.data(), source.data(), copy.size());
    EXPECT_TRUE(copy == source);
  }
}

}  // namespace
}  // namespace gantry
