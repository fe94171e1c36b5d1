#include "shape/reshape/rows.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/half_float.hpp"
#include "core/base/test_effort.hpp"
#include "shape/reshape/test_rows.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gantry::shape {
namespace {

class Rows : public testing::Test {
 protected:
  FloatMode mode_;
};

TEST_F(Rows, EveryNumberOfEveryTypeBecomesEveryOtherAsTheReferenceSays) {
  for (const Element from : kAllElements) {
    const Raw source = many(from);
    for (const Element to : kAllElements) {
      const Raw wanted = expected(to, from, source);
      on_every_target([&] {
        Raw got(wanted.size());
        convert(to, got.data(), from, source.data(), source.size() / bytes_of(from), false);
        ASSERT_EQ(difference(to, got, wanted, from, source), "");
      });
    }
  }
}

TEST_F(Rows, ByWayOfFloatsTheBitsAreThose) {
  for (const Element from : {Element::u8, Element::i16, Element::f16, Element::e5m2}) {
    const Raw source = many(from);
    const std::size_t count = source.size() / bytes_of(from);
    on_every_target([&] {
      Raw floats(count * sizeof(float)), got(count * 2);
      to_floats(reinterpret_cast<float*>(floats.data()), from, source.data(), count,
                Narrowing::nearest);
      EXPECT_EQ(
          difference(Element::f32, floats, expected(Element::f32, from, source), from, source), "");
      from_floats(Element::bf16, got.data(), reinterpret_cast<const float*>(floats.data()), count,
                  false);
      EXPECT_EQ(difference(Element::bf16, got, expected(Element::bf16, from, source), from, source),
                "");
    });
  }
}

TEST_F(Rows, HalvesAreRoundedAsBaseRoundsThem) {
  const std::vector<float> values = many_floats();
  std::vector<std::uint16_t> f16(values.size()), bf16(values.size());
  std::ranges::transform(values, f16.begin(), f16_of_float);
  std::ranges::transform(values, bf16.begin(), bf16_of_float);
  const Raw source = raw_of(values);
  EXPECT_EQ(difference(Element::f16, expected(Element::f16, Element::f32, source), raw_of(f16),
                       Element::f32, source),
            "");
  EXPECT_EQ(difference(Element::bf16, expected(Element::bf16, Element::f32, source), raw_of(bf16),
                       Element::f32, source),
            "");
}

// Some of each type's numbers, NaNs among them.
Raw mixed(Element element, std::size_t count) {
  const Raw all = many(element);
  const std::size_t bytes = bytes_of(element);
  std::mt19937 random(test_seed(7));
  Raw chosen(count * bytes);
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(chosen.data() + i * bytes, all.data() + random() % (all.size() / bytes) * bytes,
                bytes);
  return chosen;
}

TEST_F(Rows, OfAnyCountAndAlignmentNothingElseIsReadOrWritten) {
  constexpr std::size_t kMost = 130;
  Walled walled;
  for (const Element from : kAllElements) {
    const Raw source = mixed(from, kMost);
    for (const Element to : kAllElements) {
      const Raw all = expected(to, from, source);
      on_every_target([&] {
        for (std::size_t count = 0; count <= kMost; count += kTestStride)
          for (const std::size_t offset : {0, 1, 32, 63})
            for (const bool streaming : {false, true}) {
              const std::size_t bytes = count * bytes_of(to);
              alignas(64) std::array<std::byte, 1300> got;
              got.fill(std::byte{0xee});
              auto wanted = got;
              std::copy_n(all.begin(), bytes, wanted.begin() + 64 + offset);
              convert(to, got.data() + 64 + offset, from,
                      walled.put(source.data(), count * bytes_of(from)), count, streaming);
              ASSERT_TRUE(got == wanted)
                  << count << " " << facts_of(from).name << " to " << facts_of(to).name << " at "
                  << offset << (streaming ? ", streaming" : "");
            }
      });
    }
  }
}

// More than a tile, from and to everywhere in a line.
TEST_F(Rows, LongRowsPastTheCacheAreTheSame) {
  constexpr std::size_t kCount = 3000;
  for (const Element from : {Element::u8, Element::bf16, Element::f32, Element::i32, Element::f64})
    for (const Element to : kAllElements) {
      const Raw source = mixed(from, kCount);
      const Raw wanted = expected(to, from, source);
      on_every_target([&] {
        for (const std::size_t offset : {0, 2, 8, 33, 60}) {
          Raw got(wanted.size() + 128, std::byte{0xee}), all = got;
          std::ranges::copy(wanted, all.begin() + static_cast<std::ptrdiff_t>(offset));
          convert(to, got.data() + offset, from, source.data(), kCount, true);
          ASSERT_TRUE(got == all) << facts_of(from).name << " to " << facts_of(to).name;
        }
      });
    }
}

TEST_F(Rows, ScalingRoundsAfterEachOperation) {
  std::vector<float> values = many_floats();
  const std::vector<std::array<float, 2>> pairs{
      {1 / 255.0f, -0.5f}, {3, 1e-3f}, {1e30f, INFINITY}, {0, NAN}, {1e-30f, 0}, {-1.7f, 1e9f}};
  for (const auto& [by, plus] : pairs) {
    std::vector<float> wanted = values;
    for (float& value : wanted) reference::scale(&value, by, plus);
    on_every_target([&] {
      std::vector<float> one = values, each = values;
      scale_floats(one.data(), one.size(), by, plus);
      EXPECT_EQ(difference(Element::f32, raw_of(one), raw_of(wanted), Element::f32, raw_of(values)),
                "");
      const std::vector<float> scales(values.size(), by), offsets(values.size(), plus);
      scale_floats(each.data(), each.size(), scales.data(), offsets.data());
      EXPECT_TRUE(raw_of(each) == raw_of(one));
    });
  }
}

TEST_F(Rows, DoublesAreScaledLikewise) {
  std::vector<double> values = many_doubles();
  std::vector<double> wanted = values;
  for (double& value : wanted) reference::scale(&value, 1 / 3.0, -0.25);
  on_every_target([&] {
    std::vector<double> one = values, each = values;
    scale_doubles(one.data(), one.size(), 1 / 3.0, -0.25);
    EXPECT_EQ(difference(Element::f64, raw_of(one), raw_of(wanted), Element::f64, raw_of(values)),
              "");
    const std::vector<double> scales(values.size(), 1 / 3.0), offsets(values.size(), -0.25);
    scale_doubles(each.data(), each.size(), scales.data(), offsets.data());
    EXPECT_TRUE(raw_of(each) == raw_of(one));
  });
}

#if defined(__x86_64__)
TEST(FloatModes, BitsDoNotDependOnTheThreadsModeWhichIsAsItWasAfterwards) {
  constexpr unsigned kFlushing = 0x9fc0 | 0x4000;  // FTZ, DAZ, upward
  for (const Element to :
       {Element::f16, Element::bf16, Element::e4m3fn, Element::u8, Element::i32, Element::f64}) {
    const Raw source = many(Element::f32);
    const Raw wanted = expected(to, Element::f32, source);
    on_every_target([&] {
      Raw got(wanted.size());
      const unsigned before = _mm_getcsr();
      _mm_setcsr(kFlushing);
      {
        const FloatMode mode;
        convert(to, got.data(), Element::f32, source.data(), source.size() / 4, false);
      }
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      EXPECT_EQ(after & 0xffc0, kFlushing);
      EXPECT_EQ(difference(to, got, wanted, Element::f32, source), "");
    });
  }
}
#endif

// ---- bytes to scaled floats

Raw scaled_one_by_one(const Raw& bytes, float scale, float offset) {
  Raw made(bytes.size() * sizeof(float));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto value = static_cast<float>(std::to_integer<unsigned>(bytes[i]));
    reference::scale(&value, scale, offset);
    std::memcpy(made.data() + i * sizeof value, &value, sizeof value);
  }
  return made;
}

// Whatever the place, so that heads, lines and rests of all lengths are among them.
TEST(ScaledRows, BytesAreMultipliedThenAddedToWhereverTheyGo) {
  Raw bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  constexpr float kScale = 1 / (255 * 0.229f), kOffset = -0.485f / 0.229f;
  const Raw wanted = scaled_one_by_one(bytes, kScale, kOffset);
  on_every_target([&] {
    for (const bool streaming : {false, true})
      for (const std::size_t place : {0, 1, 4, 20, 60, 63})
        for (std::size_t count = 0; count <= bytes.size(); count += count < 80 ? 1 : 13) {
          alignas(64) std::array<std::byte, 64 + 300 * sizeof(float) + 64> got;
          got.fill(std::byte{0xee});
          scaled_floats(got.data() + place, bytes.data(), count, kScale, kOffset, streaming);
          ASSERT_EQ(std::memcmp(got.data() + place, wanted.data(), count * sizeof(float)), 0)
              << count << " at " << place;
          const auto untouched = [](std::byte byte) { return byte == std::byte{0xee}; };
          const auto end = got.begin() + static_cast<std::ptrdiff_t>(place + count * sizeof(float));
          EXPECT_TRUE(std::all_of(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(place),
                                  untouched) &&
                      std::all_of(end, got.end(), untouched))
              << count << " at " << place;
        }
  });
}

// ---- elements that change their places

Raw numbered(std::size_t bytes, unsigned seed) {
  Raw raw(bytes);
  std::mt19937 random(seed);
  for (std::byte& byte : raw) byte = static_cast<std::byte>(random());
  return raw;
}

TEST(OrderRows, GatherTakesEveryStepthElementAndReadsNothingBehindTheLast) {
  Walled walled;
  for (const unsigned bytes : {1, 2, 4, 8})
    for (const std::size_t step : {1, 2, 3, 4, 5, 7, 64})
      on_every_target([&] {
        for (std::size_t count = 0; count <= 130; ++count) {
          const std::size_t reach = count == 0 ? 0 : ((count - 1) * step + 1) * bytes;
          const Raw all = numbered(reach, 1);
          Raw got(count * bytes + 130, std::byte{0xee}), wanted = got;
          for (std::size_t i = 0; i < count; ++i)
            std::memcpy(wanted.data() + 65 + i * bytes, all.data() + i * step * bytes, bytes);
          gather(got.data() + 65, walled.put(all.data(), reach), step, count, bytes);
          ASSERT_TRUE(got == wanted) << count << " of " << bytes << " bytes, step " << step;
        }
      });
}

TEST(OrderRows, InterleaveTakesOneOfEachStreamInTurn) {
  for (const unsigned bytes : {1, 2, 4, 8})
    for (const unsigned streams : {2, 3, 4})
      on_every_target([&] {
        for (std::size_t count = 0; count <= 130; ++count) {
          std::array<Raw, 4> raw;
          std::array<const std::byte*, 4> sources{};
          for (unsigned s = 0; s < streams; ++s) {
            raw[s] = numbered(count * bytes, s);
            sources[s] = raw[s].data();
          }
          Raw got(count * bytes * streams + 130, std::byte{0xee}), wanted = got;
          for (std::size_t i = 0; i < count * streams; ++i)
            std::memcpy(wanted.data() + 65 + i * bytes, sources[i % streams] + i / streams * bytes,
                        bytes);
          interleave(got.data() + 65, sources.data(), streams, count, bytes);
          ASSERT_TRUE(got == wanted) << count << " of " << bytes << " bytes, " << streams;
        }
      });
}

TEST(OrderRows, PackedNumbersBecomeCodesFromAnyPlaceOn) {
  const Raw packed = numbered(200, 5);
  for (const Element from : {Element::u4, Element::i4, Element::e2m1})
    on_every_target([&] {
      for (std::size_t first = 0; first < 5; ++first)
        for (std::size_t count = 0; count <= 300; ++count) {
          Raw got(count + 2, std::byte{0xee}), wanted = got;
          for (std::size_t i = 0; i < count; ++i) {
            const auto byte = std::to_integer<int>(packed[(first + i) / 2]);
            int code = (first + i) % 2 == 0 ? byte % 16 : byte / 16;
            if (from == Element::i4 && code >= 8) code -= 16;
            wanted[i + 1] = static_cast<std::byte>(code);
          }
          unpack(got.data() + 1, from, packed.data(), first, count);
          ASSERT_TRUE(got == wanted) << count << " from " << first;
        }
    });
}

TEST(OrderRows, CodesArePackedTheFirstToTheLowHalf) {
  const Raw codes = numbered(300, 6);
  on_every_target([&] {
    for (std::size_t count = 0; count <= 300; ++count) {
      Raw got((count + 1) / 2 + 2, std::byte{0xee}), wanted = got;
      for (std::size_t i = 0; i < count; ++i) {
        const int code = std::to_integer<int>(codes[i]) % 16;
        std::byte& byte = wanted[i / 2 + 1];
        byte = static_cast<std::byte>(i % 2 == 0 ? code : std::to_integer<int>(byte) + code * 16);
      }
      pack(got.data() + 1, codes.data(), count);
      ASSERT_TRUE(got == wanted) << count;
    }
  });
}

}  // namespace
}  // namespace gantry::shape
