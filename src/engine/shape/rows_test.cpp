#include "engine/shape/rows.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "base/half_float.hpp"
#include "base/test_effort.hpp"
#include "engine/shape/test_rows.hpp"

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

}  // namespace
}  // namespace gantry::shape
