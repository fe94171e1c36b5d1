#include "shape/reshape/planes.hpp"
#include "core/base/test_effort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace gantry::shape {
namespace {

using Memory = std::vector<std::byte>;

constexpr Element kTaken[] = {Element::u8,  Element::i8,     Element::u16,  Element::i16,
                              Element::i32, Element::f16,    Element::bf16, Element::f32,
                              Element::f64, Element::e4m3fn, Element::e5m2};

Memory random_bytes(std::mt19937_64& random, Bytes bytes) {
  Memory memory(bytes);
  for (std::byte& each : memory) each = static_cast<std::byte>(random());
  return memory;
}

Memory image_of(const PlaneLayout& layout, const Memory& dense) {
  Memory image(layout.bytes(), std::byte{0xee});
  make_planes(layout, image.data(), 0, image.size(), dense.data());
  return image;
}

std::uint64_t element_at(const PlaneLayout& layout, const Memory& dense, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, dense.data() + index * layout.element_bytes(), layout.element_bytes());
  return code_of(layout.element(), bits);
}

// What docs/formats/planes.md says, element by element.
Memory reference(const PlaneLayout& layout, const Memory& dense) {
  Memory image(layout.bytes());
  const unsigned bits = layout.element_bytes() * 8;
  for (std::size_t block = 0; block < layout.blocks(); ++block) {
    for (std::size_t i = 0; i < layout.elements_of(block); ++i) {
      const std::uint64_t code = element_at(layout, dense, block * layout.block() + i);
      for (unsigned plane = 0; plane < layout.planes(); ++plane) {
        std::byte* const at = image.data() + layout.offset_of(block, plane);
        if (layout.in_bits())
          at[i / 8] |= static_cast<std::byte>((code >> (bits - 1 - plane) & 1u) << i % 8);
        else
          at[i] = static_cast<std::byte>(code >> (bits - 8 - plane * 8));
      }
    }
    for (std::size_t group = 0; group < layout.groups_of(block); ++group) {
      std::uint64_t least = ~std::uint64_t{0}, largest = 0;
      const std::size_t first = group * layout.group();
      for (std::size_t i = first; i < std::min(first + layout.group(), layout.elements_of(block));
           ++i) {
        const std::uint64_t code = element_at(layout, dense, block * layout.block() + i);
        least = std::min(least, code), largest = std::max(largest, code);
      }
      std::byte* const at = image.data() + layout.offset_of(block) + group * bits / 4;
      std::memcpy(at, &least, bits / 8);
      std::memcpy(at + bits / 8, &largest, bits / 8);
    }
  }
  return image;
}

PlaneLayout random_layout(std::mt19937_64& random, std::int64_t most) {
  const auto count = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) + 1;
  Planes planes;
  planes.unit = random() % 2 == 0 ? Planes::Unit::bytes : Planes::Unit::bits;
  planes.block = static_cast<std::int64_t>(random() % 3 * 8 * (random() % 400));
  planes.bounds_group = static_cast<std::uint16_t>(random() % 2 * (random() % 70));
  return *PlaneLayout::make(kTaken[random() % std::size(kTaken)], count, planes);
}

template <class Float>
void expect_order(Element element, std::initializer_list<Float> ascending) {
  std::uint64_t before = 0;
  for (const Float value : ascending) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    const std::uint64_t code = code_of(element, bits);
    EXPECT_LT(before, code) << value;
    EXPECT_EQ(bits_of(element, code), bits);
    before = code;
  }
}

TEST(Planes, CodesAreInTheOrderOfTheValues) {
  using F = std::numeric_limits<float>;
  expect_order<float>(
      Element::f32, {-F::infinity(), F::lowest(), -1.5f, -F::min(), -F::denorm_min(), -0.0f, 0.0f,
                     F::denorm_min(), F::min(), 1, 1.5f, F::max(), F::infinity(), F::quiet_NaN()});
  using D = std::numeric_limits<double>;
  expect_order<double>(Element::f64, {-D::quiet_NaN(), -D::infinity(), -1, -0.0, 0.0,
                                      D::denorm_min(), 2, D::infinity(), D::quiet_NaN()});
  expect_order<std::int8_t>(Element::i8,
                            {std::int8_t{-127}, std::int8_t{-1}, std::int8_t{0}, std::int8_t{127}});
  expect_order<std::int32_t>(Element::i32, {-2147483647, -1, 0, 2147483647});
  expect_order<std::uint16_t>(Element::u16, {std::uint16_t{1}, std::uint16_t{0x8000}});
}

TEST(Planes, RandomImagesAreWhatThePageSays) {
  std::mt19937_64 random(test_seed(1));
  for (int round = 0; round < 400; ++round) {
    const PlaneLayout layout = random_layout(random, 6000);
    const Memory dense = random_bytes(random, layout.dense_bytes());
    const Memory image = image_of(layout, dense);
    ASSERT_EQ(image, reference(layout, dense)) << round;
    Memory joined(dense.size());
    join_planes(layout, joined.data(), 0, joined.size(), image.data());
    ASSERT_EQ(joined, dense) << round;
  }
}

TEST(Planes, AnyCutOfEitherSideIsThePartOfTheWhole) {
  std::mt19937_64 random(test_seed(2));
  for (int round = 0; round < 4000; ++round) {
    const PlaneLayout layout = random_layout(random, round % 20 == 0 ? 9000 : 90);
    const Memory dense = random_bytes(random, layout.dense_bytes());
    const Memory image = image_of(layout, dense);
    const auto cut = [&](const Memory& whole) {
      const Bytes from = random() % whole.size();
      return ByteRange{from, random() % (whole.size() - from) + 1};
    };
    const auto part_of = [](const Memory& whole, ByteRange range) {
      return Memory(whole.data() + range.from, whole.data() + range.end());
    };
    const ByteRange made = cut(image);
    Memory part(made.bytes);
    // What is outside of the range that is asked for is not even there.
    const ByteRange needed = layout.dense_of(made);
    ASSERT_LE(needed.end(), dense.size());
    Memory there = part_of(dense, needed);
    make_planes(layout, part.data(), made.from, made.bytes, there.data() - needed.from);
    ASSERT_EQ(part, part_of(image, made)) << round;

    const ByteRange joined = cut(dense);
    const ByteRange read = layout.image_of(joined);
    ASSERT_LE(read.end(), image.size());
    there = part_of(image, read);
    part.assign(joined.bytes, std::byte{});
    join_planes(layout, part.data(), joined.from, joined.bytes, there.data() - read.from);
    ASSERT_EQ(part, part_of(dense, joined)) << round;
  }
}

TEST(Planes, PrefixesSufficeForWhatTheySay) {
  std::mt19937_64 random(test_seed(3));
  for (int round = 0; round < 2000; ++round) {
    const PlaneLayout layout = random_layout(random, 300);
    const Memory dense = random_bytes(random, layout.dense_bytes());
    const Memory image = image_of(layout, dense);
    const Bytes prefix = random() % (dense.size() + 1);
    Memory hidden = dense;
    std::fill(hidden.begin() + static_cast<std::ptrdiff_t>(prefix), hidden.end(), std::byte{0x77});
    const Bytes makes = layout.image_from(prefix);
    Memory part(makes);
    make_planes(layout, part.data(), 0, makes, hidden.data());
    ASSERT_TRUE(std::equal(part.begin(), part.end(), image.begin())) << round;
    ASSERT_LE(layout.dense_of({0, makes}).end(), prefix) << round;

    const Bytes landed = random() % (image.size() + 1);
    hidden = image;
    std::fill(hidden.begin() + static_cast<std::ptrdiff_t>(landed), hidden.end(), std::byte{0x77});
    const Bytes joins = layout.dense_from(landed);
    part.assign(joins, std::byte{});
    join_planes(layout, part.data(), 0, joins, hidden.data());
    ASSERT_TRUE(std::equal(part.begin(), part.end(), dense.begin())) << round;
    ASSERT_LE(layout.image_of({0, joins}).end(), landed) << round;
  }
  const PlaneLayout layout = *PlaneLayout::make(Element::f32, 64, {Planes::Unit::bytes, 16, 0});
  EXPECT_EQ(layout.image_from(layout.dense_bytes()), layout.bytes());
  EXPECT_EQ(layout.dense_from(layout.bytes()), layout.dense_bytes());
  EXPECT_EQ(layout.image_from(2 * layout.dense_unit()), 2 * layout.unit());
  EXPECT_EQ(layout.dense_from(2 * layout.unit()), 2 * layout.dense_unit());
}

TEST(Planes, TheExampleOfThePage) {
  const float values[] = {1.0f, -2.0f, 0.5f, 1.5f};
  Memory dense(sizeof values);
  std::memcpy(dense.data(), values, sizeof values);
  const auto bytes = [](std::initializer_list<unsigned> list) {
    Memory memory;
    for (const unsigned each : list) memory.push_back(static_cast<std::byte>(each));
    return memory;
  };
  const PlaneLayout layout = *PlaneLayout::make(Element::f32, 4, {Planes::Unit::bytes, 0, 4});
  EXPECT_EQ(image_of(layout, dense),
            bytes({0xff, 0xff, 0xff, 0x3f, 0x00, 0x00, 0xc0, 0xbf,  // bounds
                   0xbf, 0x3f, 0xbf, 0xbf, 0x80, 0xff, 0x00, 0xc0,
                   0x00, 0xff, 0x00, 0x00, 0x00, 0xff, 0x00, 0x00}));
  const PlaneLayout bits = *PlaneLayout::make(Element::f32, 4, {Planes::Unit::bits, 0, 0});
  const Memory image = image_of(bits, dense);
  EXPECT_EQ(Memory(image.begin(), image.begin() + 10),
            bytes({0x0d, 0x00, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0b, 0x0a}));
}

TEST(Planes, RefusesWhatHasNone) {
  const auto code = [](Element element, std::int64_t count, Planes planes) {
    const Result<PlaneLayout> made = PlaneLayout::make(element, count, planes);
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(code(Element::u4, 8, {Planes::Unit::bytes, 0, 0}),
            "planes of u4: two numbers share a byte");
  EXPECT_EQ(code(Element::f32, 8, {}), "planes: neither of bytes nor of bits");
  EXPECT_EQ(code(Element::f32, 8, {Planes::Unit::bits, 12, 0}),
            "planes: blocks of 12 elements: no multiple of 8");
  EXPECT_NE(code(Element::f32, 0, {Planes::Unit::bits, 8, 0}), "");
  EXPECT_NE(code(Element::f32, std::int64_t{1} << 60, {Planes::Unit::bits, 8, 0}), "");
}

}  // namespace
}  // namespace gantry::shape
