#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/base/test_effort.hpp"
#include "core/tensor/groups.hpp"
#include "shape/reshape/rows.hpp"
#include "shape/reshape/test_rows.hpp"

namespace gantry::shape {
namespace {

class GroupRows : public testing::Test {
 protected:
  FloatMode mode_;
};

std::vector<Groups> all_groups() {
  std::vector<Groups> all;
  for (const DataType element :
       {types::i8, types::u8, types::i4, types::u4, types::e4m3fn, types::e5m2, types::e2m1})
    for (const std::uint16_t size : std::initializer_list<std::uint16_t>{32, 64, 128})
      for (const auto scale :
           {Groups::Scale::f32, Groups::Scale::f16, Groups::Scale::bf16, Groups::Scale::e8m0})
        for (const bool zero_point : {false, true})
          if (!zero_point || !facts_of(*element_of(element)).is_float)
            all.push_back({element, size, scale, zero_point});
  return all;
}

std::string text_of(const Groups& groups) {
  return to_string(groups.type());
}

// Groups of numbers of alike magnitude, of any magnitude, with infinities, NaNs and zeros, of one
// sign, of nothing but zeros.
std::vector<float> many_groups(std::size_t size, std::size_t count) {
  std::mt19937 random(test_seed(11));
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (std::size_t group = 0; group < count; ++group) {
    const float magnitude = std::ldexp(1.0f, static_cast<int>(random() % 277) - 149);
    const unsigned kind = group % 8;
    for (std::size_t i = 0; i < size; ++i) {
      float value = normal(random) * magnitude;
      if (kind == 1) value = std::fabs(value);
      if (kind == 2) value = -std::fabs(value);
      if (kind == 3) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (kind == 4 && random() % 8 == 0) value = random() % 2 == 0 ? NAN : -INFINITY;
      if (kind == 5) value = group % 16 < 8 ? 0 : -0.0f;
      if (kind == 6) value = std::round(normal(random) * 100);
      values.push_back(value);
    }
    if (kind == 5 && group % 3 == 0) values.back() = INFINITY;
    if (kind == 7) values.back() = std::numeric_limits<float>::max();
    if (kind == 7 && group % 16 == 7) values.front() = std::numeric_limits<float>::lowest();
  }
  return values;
}

Raw expected_groups(const Groups& groups, const std::vector<float>& values) {
  Raw wanted(values.size() / groups.size * bytes_of(groups));
  for (std::size_t i = 0; i < values.size() / groups.size; ++i)
    reference::floats_to_group(wanted.data() + i * bytes_of(groups), groups,
                               values.data() + i * groups.size);
  return wanted;
}

std::vector<float> expected_floats(const Groups& groups, const Raw& source) {
  std::vector<float> wanted(source.size() / bytes_of(groups) * groups.size);
  for (std::size_t i = 0; i < source.size() / bytes_of(groups); ++i)
    reference::group_to_floats(wanted.data() + i * groups.size, groups,
                               source.data() + i * bytes_of(groups));
  return wanted;
}

TEST_F(GroupRows, AreMadeAsTheReferenceMakesThem) {
  for (const Groups& groups : all_groups()) {
    const std::vector<float> values = many_groups(groups.size, 800 / kTestStride);
    const Raw wanted = expected_groups(groups, values);
    on_every_target([&] {
      Raw got(wanted.size());
      floats_to_groups(got.data(), groups, values.data(), values.size() / groups.size);
      for (std::size_t at = 0; at < got.size(); at += bytes_of(groups))
        ASSERT_EQ(hex(got.data() + at, bytes_of(groups)), hex(wanted.data() + at, bytes_of(groups)))
            << text_of(groups) << ", group " << at / bytes_of(groups);
    });
  }
}

// Any bytes are groups: those of scales that are infinite or NaN, too.
TEST_F(GroupRows, AreReadAsTheReferenceReadsThem) {
  std::mt19937 random(test_seed(12));
  for (const Groups& groups : all_groups()) {
    Raw source = expected_groups(groups, many_groups(groups.size, 400 / kTestStride));
    const std::size_t half = source.size() / 2;
    for (std::size_t i = 0; i < half; ++i) source[i] = static_cast<std::byte>(random());
    const std::vector<float> wanted = expected_floats(groups, source);
    on_every_target([&] {
      std::vector<float> got(wanted.size());
      groups_to_floats(got.data(), groups, source.data(), source.size() / bytes_of(groups));
      ASSERT_TRUE(raw_of(got) == raw_of(wanted)) << text_of(groups);
    });
  }
}

TEST_F(GroupRows, OfAnyCountNothingElseIsWritten) {
  for (const Groups& groups : all_groups()) {
    const std::vector<float> values = many_groups(groups.size, 40);
    const Raw all = expected_groups(groups, values);
    const std::vector<float> floats = expected_floats(groups, all);
    on_every_target([&] {
      for (std::size_t count = 0; count <= 40; ++count) {
        const std::size_t bytes = count * bytes_of(groups);
        const auto numbers = static_cast<std::ptrdiff_t>(count * groups.size);
        Raw got(bytes + 130, std::byte{0xee}), wanted = got;
        std::copy_n(all.begin(), bytes, wanted.begin() + 65);
        const std::vector<float> exactly(values.begin(), values.begin() + numbers);
        floats_to_groups(got.data() + 65, groups, exactly.data(), count);
        ASSERT_TRUE(got == wanted) << count << " " << text_of(groups);
        std::vector<float> back(count * groups.size + 32, 7.0f), wanted_back = back;
        std::copy_n(floats.begin(), numbers, wanted_back.begin() + 16);
        groups_to_floats(back.data() + 16, groups, got.data() + 65, count);
        ASSERT_TRUE(raw_of(back) == raw_of(wanted_back)) << count << " " << text_of(groups);
      }
    });
  }
}

float scale_of(const Groups& groups, const std::byte* group) {
  // A number of 1, with a scale of its own, decodes to that.
  Raw one(bytes_of(groups));
  const std::size_t numbers = groups.size * groups.element.bits / 8;
  std::memcpy(one.data(), group, one.size() - numbers - (groups.zero_point ? 1 : 0));
  const Element element = *element_of(groups.element);
  const float unit = 1;
  reference::convert(element, one.data() + one.size() - numbers, Element::f32,
                     reinterpret_cast<const std::byte*>(&unit));
  std::vector<float> floats(groups.size);
  reference::group_to_floats(floats.data(), groups, one.data());
  return floats[0];
}

bool is_finite(const float* group, std::size_t size) {
  return std::all_of(group, group + size, [](float value) { return std::isfinite(value); });
}

// Half a step, and what two roundings of floats lose of the largest quotient.
TEST_F(GroupRows, OfWholeNumbersAreAtMostHalfAStepOff) {
  for (const Groups& groups : all_groups()) {
    const ElementFacts& facts = facts_of(*element_of(groups.element));
    if (facts.is_float) continue;
    const std::vector<float> values = many_groups(groups.size, 400);
    const Raw made = expected_groups(groups, values);
    const std::vector<float> back = expected_floats(groups, made);
    const double most = facts.largest - facts.least;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t group = i / groups.size;
      if (!is_finite(&values[group * groups.size], groups.size)) continue;
      const double scale = scale_of(groups, made.data() + group * bytes_of(groups));
      double value = values[i];
      if (facts.least == 0 && !groups.zero_point) value = std::max(value, 0.0);
      if (groups.scale == Groups::Scale::f16 && scale == 65504) continue;  // beyond its scales
      ASSERT_LE(std::fabs(back[i] - value), (0.5 + most * 0x1p-22) * scale)
          << text_of(groups) << ": " << values[i] << " came back as " << back[i];
    }
  }
}

// docs/formats/shape.md has these.
TEST_F(GroupRows, LieInMemoryAsTheFormatsPageSays) {
  std::vector<float> values(32);
  values[0] = 1, values[1] = -2, values[31] = 0.25f;
  const auto bytes = [&](const Groups& groups) {
    Raw made(bytes_of(groups));
    floats_to_groups(made.data(), groups, values.data(), 1);
    std::string text;
    for (const std::byte byte : made) text += hex(&byte, 1);
    return text;
  };
  const auto zeros = [](std::size_t count) { return std::string(2 * count, '0'); };
  using Scale = Groups::Scale;
  EXPECT_EQ(bytes({types::i8, 32, Scale::f16, false}),
            "0924"
            "3f81" +
                zeros(29) + "10");
  EXPECT_EQ(bytes({types::i8, 32, Scale::e8m0, false}),
            "7a"
            "20c0" +
                zeros(29) + "08");
  EXPECT_EQ(bytes({types::i4, 32, Scale::bf16, false}),
            "933e"
            "93" +
                zeros(14) + "10");
  EXPECT_EQ(bytes({types::u4, 32, Scale::f32, true}),
            "cdcc4c3e"
            "0a"
            "0f" +
                std::string(28, 'a') + "ba");
  EXPECT_EQ(bytes({types::e4m3fn, 32, Scale::e8m0, false}),
            "78"
            "70f8" +
                zeros(29) + "60");
  EXPECT_EQ(bytes({types::e2m1, 32, Scale::e8m0, false}),
            "7e"
            "e4" +
                zeros(14) + "10");
}

}  // namespace
}  // namespace gantry::shape
