#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <gantry/shape.hpp>
#include <random>

#include "core/base/test_effort.hpp"
#include "shape/reshape/rows.hpp"
#include "shape/reshape/test_reference.hpp"

// What make() refuses, and whether a plan keeps to the error that it states.
namespace gantry {
namespace {

using shape::Element;
using shape::facts_of;
using shape::kElements;

Tensor tensor(DataType type, std::vector<std::int64_t> shape) {
  return Tensor::dense(type, shape);
}
Tensor strided(DataType type, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  Tensor made = tensor(type, shape);
  std::copy(strides.begin(), strides.end(), made.strides.begin());
  return made;
}

struct Refused {
  Tensor to, from;
  ReshapeOptions options;
  std::string_view why;
};

std::vector<Refused> refused_tensors() {
  const Tensor rows = tensor(types::f32, {4, 6});
  Tensor nine = rows;
  nine.dimensions = 9;
  const std::int64_t huge = std::int64_t{1} << 40;
  return {
      {rows, tensor({99, 32, 1}, {4, 6}), {}, "the source is of DLPack type 99 of 32 bits"},
      {tensor({types::i8.code, 8, 3}, {4, 6}), rows, {}, "the destination is of DLPack type 0"},
      {rows, nine, {}, "the source has 9 dimensions: 1 to 8 are possible"},
      {rows, tensor(types::f32, {}), {}, "the source has 0 dimensions"},
      {tensor(types::u8, {4, 0}), rows, {}, "destination has 0 elements along dimension 1"},
      {rows, tensor(types::f32, {-4, 6}), {}, "the source has -4 elements along dimension 0"},
      {rows, tensor(types::f32, {24}), {}, "the source has 1 dimensions, the destination 2"},
      {rows,
       tensor(types::f32, {4, 7}),
       {},
       "the destination has 6 elements along dimension 1, the source's dimension 1 has 7"},
      {rows, strided(types::f32, {4, 6}, {-6, 1}), {}, "dimension 0 has the stride -6"},
      {rows, strided(types::f32, {4, 6}, {0, 1}), {}, "dimension 0 has the stride 0"},
      {rows,
       strided(types::f32, {4, 6}, {5, 1}),
       {},
       "dimension 0 has the stride 5, but the dimensions within it reach over 6 elements"},
      {strided(types::f32, {4, 6}, {7, 1}),
       rows,
       {},
       "the destination's dimension 0 has the stride 7, without gaps it is 6"},
      {rows, strided(types::f32, {4, 6}, {std::int64_t{1} << 62, 1}), {}, "beyond 63 bits"},
      {tensor(types::u8, {huge, huge}), tensor(types::u8, {huge, huge}), {}, "beyond 63 bits"},
      {tensor(*parse_type("i8[32]"), {4, 33}),
       tensor(types::f32, {4, 33}),
       {},
       "groups of 32 do not divide the destination's dimension 1 of 33 elements"},
      {rows,
       tensor(*parse_type("i8[64]"), {4, 6}),
       {},
       "groups of 64 do not divide the source's dimension 1 of 6"},
  };
}

std::vector<Refused> refused_options() {
  const Tensor rows = tensor(types::f32, {4, 6});
  return {
      {rows, rows, {.order = {0}}, "order has 1 entries, 2 are needed"},
      {rows, rows, {.order = {0, 0}}, "order[1] is 0"},
      {rows, rows, {.order = {0, 2}}, "order[1] is 2: each of 0 to 1"},
      {rows,
       rows,
       {.order = {1, 0}},
       "the destination has 4 elements along dimension 0, the source's dimension 1 has 6"},
      {rows, rows, {.crop_from = {1}}, "crop_from has 1 entries, 2 are needed"},
      {rows, rows, {.crop_from = {-1, 0}}, "crop_from[0] is -1"},
      {rows,
       rows,
       {.crop_from = {1, 0}},
       "dimension 0 takes 4 elements from 1 on, the source's dimension 0 has 4"},
      {rows, rows, {.crop_from = {0, std::int64_t{1} << 62}}, "the source's dimension 1 has 6"},
      {rows, rows, {.pad_before = {4, 0}}, "dimension 0 of 4 elements cannot be padded by 4 and 0"},
      {rows, rows, {.pad_behind = {0, 1}}, "has 5 elements along dimension 1"},
      {rows, rows, {.channel_dimension = 2, .scale = {1}}, "channel_dimension is 2"},
      {rows, rows, {.channel_dimension = 1, .channels = {0, 1}}, "channels has 2 entries, 6"},
      {rows, rows, {.channels = {0, 1, 2, 4}}, "channels[3] is 4, the source has 4"},
      {rows, rows, {.channel_dimension = 1, .scale = {1, 2}}, "scale has 2 entries, 6 are needed"},
      {rows, rows, {.offset = {1, 2, 3}}, "offset has 3 entries, 4 are needed"},
      {rows, rows, {.offset = {std::numeric_limits<float>::infinity()}}, "channel 0 is scaled by"},
      {tensor(types::bf16, {4, 6}), rows, {.exact = true}, "f32 to bf16 is not exact: 0.5 ulp"},
      {tensor(types::u8, {4, 6}), tensor(types::i8, {4, 6}), {.exact = true}, "saturates"},
  };
}

TEST(ReshapePlans, WhatDoesNotFitIsRefusedWithTheDimensionAndBothValues) {
  std::vector<Refused> all = refused_tensors();
  std::ranges::copy(refused_options(), std::back_inserter(all));
  for (const Refused& one : all) {
    const auto plan = ReshapePlan::make(one.to, one.from, one.options);
    ASSERT_FALSE(plan) << one.why;
    EXPECT_EQ(plan.error().code, Code::invalid_argument);
    EXPECT_NE(plan.error().message.find(one.why), std::string::npos) << plan.error().message;
  }
}

TEST(ReshapePlans, ADimensionOfChannelsThatNothingUsesMayBeAny) {
  const std::int64_t count = 3;
  const Tensor numbers = Tensor::dense(types::f32, {&count, 1});
  for (const unsigned dimension : {1u, 8u, 16u, ~0u}) {
    const auto plan = ReshapePlan::make(numbers, numbers, {.channel_dimension = dimension});
    ASSERT_TRUE(plan) << plan.error().message;
    const std::array<float, 3> source{1, -2, 3};
    std::array<float, 3> made{};
    ASSERT_TRUE(
        plan->convert(std::as_writable_bytes(std::span(made)), std::as_bytes(std::span(source))));
    EXPECT_EQ(made, source);
  }
}

// A group that is the same afterwards is the only one that loses nothing.
TEST(ReshapePlans, GroupsOfOneTypeAreExactOnlyWhereTheyAreCopied) {
  const DataType type = *parse_type("i8[32]");
  const Tensor two = tensor(type, {64}), one = tensor(type, {32});
  const auto copied = ReshapePlan::make(one, two, {.crop_from = {32}, .exact = true});
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(copied->error().kind, ReshapeError::Kind::exact);
  std::vector<std::byte> source(68), made(34);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(copied->convert(made, source));
  EXPECT_TRUE(std::equal(made.begin(), made.end(), source.begin() + 34));
  for (const ReshapeOptions& options :
       {ReshapeOptions{.crop_from = {16}}, ReshapeOptions{.scale = {1}}}) {
    const auto made_anew = ReshapePlan::make(one, two, options);
    if (!made_anew) continue;
    EXPECT_EQ(made_anew->error().kind, ReshapeError::Kind::steps);
    ReshapeOptions exact = options;
    exact.exact = true;
    EXPECT_FALSE(ReshapePlan::make(one, two, exact));
  }
}

TEST(ReshapePlans, PaddingIsTheNearestNumber) {
  for (const double value : {0.3, 0.1, 1e39, -1e39, 1e-46, 16777217.0}) {
    const auto plan = ReshapePlan::make(tensor(types::f32, {2}), tensor(types::f32, {1}),
                                        {.pad_before = {1}, .pad_behind = {0}, .pad_value = value});
    ASSERT_TRUE(plan);
    const float one = 5;
    std::array<float, 2> made{};
    ASSERT_TRUE(
        plan->convert(std::as_writable_bytes(std::span(made)), std::as_bytes(std::span(&one, 1))));
    EXPECT_EQ(made[0], static_cast<float>(value)) << value;
    EXPECT_EQ(made[1], one);
  }
}

TEST(ReshapePlans, RangesOfPackedNumbersDoNotWrap) {
  const std::int64_t count = (std::int64_t{1} << 62) - 1;
  const auto plan = ReshapePlan::make(tensor(types::u4, {count}), tensor(types::u4, {count}));
  ASSERT_TRUE(plan) << plan.error().message;
  const Bytes bytes = Bytes{1} << 61;
  EXPECT_EQ(plan->source_of({bytes - 3, 3}).from, bytes - 3);
  EXPECT_EQ(plan->source_of({bytes - 3, 3}).end(), bytes);
  EXPECT_EQ(plan->source_of({0, bytes}).end(), bytes);
}

TEST(ReshapePlans, TypesAreReadAsTheyAreWritten) {
  for (const std::string_view text :
       {"u8", "i8", "u16", "i16", "i32", "f16", "bf16", "f32", "f64", "e4m3fn", "e5m2", "u4", "i4",
        "e2m1", "i8[32]", "u4[128,f32,zero]", "e4m3fn[32,e8m0]", "e2m1[64,bf16]", "u8[64,zero]"}) {
    const auto type = parse_type(text);
    ASSERT_TRUE(type) << text;
    EXPECT_EQ(to_string(*type), text);
  }
  for (const std::string_view text : {"", "f33", "f32[32]", "i8[33]", "i8[]", "i8[32", "i8[32,f17]",
                                      "e5m2[32,zero]", "i16[32]", "i8[32,zero,f64]", "bf16 x"}) {
    const auto type = parse_type(text);
    ASSERT_FALSE(type) << text;
    EXPECT_NE(type.error().message.find("is no type of elements"), std::string::npos);
    EXPECT_NE(type.error().hint.find("u8 i8 u16"), std::string::npos);
  }
  EXPECT_EQ(As::parse(" f32->i8[32] ")->text(), "f32 -> i8[32]");
  EXPECT_EQ(As::parse("bf16")->text(), "bf16");
  EXPECT_FALSE(As::parse("f32 -> "));
  EXPECT_FALSE(As::parse("-> f32"));
}

TEST(ReshapePlans, NothingOfATypeIsSaidTwice) {
  for (const std::string_view text : {"u4[64,f32,zero,zero]", "i8[32,f16,f32]", "i8[32,f16,f16]"})
    EXPECT_FALSE(parse_type(text)) << text;
  EXPECT_TRUE(parse_type("u4[64,zero,f32]"));
}

TEST(ReshapePlans, BytesWithoutATensorAreWholeElements) {
  const As as = *As::parse("i8[32] -> f32");
  EXPECT_EQ(as.plan_for({}, 68)->source(), tensor(*parse_type("i8[32]"), {64}));
  EXPECT_NE(as.plan_for({}, 67).error().message.find("67 bytes are no whole number of i8[32]"),
            std::string::npos);
  EXPECT_EQ(As::parse("u4 -> u8")->plan_for({}, 3)->destination_bytes(), 6u);
  EXPECT_FALSE(As(types::bf16).plan_for({}, 4));
}

double value_of(Element element, const std::byte* bits) {
  double value = 0;
  shape::reference::convert(Element::f64, reinterpret_cast<std::byte*>(&value), element, bits);
  return value;
}

// The distance of neighbouring numbers at a value.
double ulp(Element element, double value) {
  if (!facts_of(element).is_float) return 1;
  static const int kLeast[] = {0, 0, 0, 0, 0, -24, -133, -149, -1074, -9, -16, 0, 0, -1};
  const int exponent = value == 0 ? -1100 : std::ilogb(value);
  const int last = exponent - static_cast<int>(facts_of(element).digits) + 1;
  return std::ldexp(1, std::max(last, kLeast[static_cast<std::size_t>(element)]));
}

void check_one(Element to, Element from, const std::byte* bits, const ReshapeError& error) {
  std::byte made[8]{};
  shape::reference::convert(to, made, from, bits);
  const double x = value_of(from, bits), y = value_of(to, made);
  if (x == y || (std::isnan(x) && std::isnan(y))) return;
  const bool within = x <= facts_of(to).largest && x >= facts_of(to).least;
  ASSERT_TRUE(within || error.saturates) << x << " became " << y;
  ASSERT_FALSE(within && error.kind == ReshapeError::Kind::exact) << x << " became " << y;
  if (!within) return;
  ASSERT_LE(std::abs(x - y), error.amount * std::max(ulp(to, x), ulp(to, y)))
      << x << " became " << y;
}

// All of 16 bits and less, and what random bits and random exponents give of the others.
TEST(ReshapePlans, NoPairOfTypesIsFartherOffThanItsPlanSays) {
  std::mt19937_64 random(test_seed(3));
  for (std::size_t i = 0; i < kElements; ++i)
    for (std::size_t j = 0; j < kElements; ++j) {
      const auto to = static_cast<Element>(i), from = static_cast<Element>(j);
      const auto plan = ReshapePlan::make(facts_of(to).type, tensor(facts_of(from).type, {2}));
      ASSERT_TRUE(plan);
      SCOPED_TRACE(plan->text());
      const unsigned bits = facts_of(from).bits;
      const std::uint64_t count = bits <= 16 ? std::uint64_t{1} << bits : 20'000;
      for (std::uint64_t n = 0; n < count; n += kTestStride) {
        std::uint64_t code = bits <= 16 ? n : random();
        if (from == Element::i4 && code > 7) code |= 0xf0u;
        check_one(to, from, reinterpret_cast<const std::byte*>(&code), plan->error());
        if (HasFatalFailure()) return;
      }
    }
}

// Of groups: within half a step, which is the scale that the group itself has.
TEST(ReshapePlans, NoGroupIsFartherOffThanHalfItsStep) {
  std::mt19937 random(test_seed(4));
  for (const std::string_view text : {"i8[32]", "u8[64,f32,zero]", "i4[128,bf16]", "u4[32,zero]",
                                      "i8[32,f32,zero]", "i8[64,e8m0]"}) {
    const DataType type = *parse_type(text);
    const Groups groups = *groups_of(type);
    const std::int64_t count = groups.size;
    const auto plan = ReshapePlan::make(type, tensor(types::f32, {count}));
    const auto back = ReshapePlan::make(types::f32, tensor(type, {count}));
    ASSERT_TRUE(plan && back);
    EXPECT_EQ(plan->error().kind, ReshapeError::Kind::steps);
    for (int round = 0; round < 2000; round += kTestStride) {
      std::vector<float> values(groups.size), got(groups.size);
      const float size = std::ldexp(1.f, static_cast<int>(random() % 12) - 6);
      for (float& value : values) value = size * (static_cast<float>(random() % 2001) / 1000 - 1);
      std::vector<std::byte> made(plan->destination_bytes());
      ASSERT_TRUE(plan->convert(made, std::as_bytes(std::span(values))));
      ASSERT_TRUE(back->convert(std::as_writable_bytes(std::span(got)), made));
      float largest = 0;
      for (const float value : values) largest = std::max(largest, std::abs(value));
      // The step is at most twice what would do: scales are rounded, to powers of two at worst.
      const double steps = groups.element.bits == 8 ? 127 : 7;
      double step = (groups.zero_point ? 2.0 : 1.0) * largest / steps * 1.02;
      if (groups.scale == Groups::Scale::e8m0) step *= 2;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_LE(std::abs(values[i] - got[i]), step / 2 * 1.01) << text << " " << values[i];
    }
  }
}

TEST(ReshapePlans, SayWhatTheyDo) {
  const auto plan = ReshapePlan::make(tensor(types::f32, {2, 3, 5, 7}),
                                      tensor(types::u8, {2, 5, 7, 3}), {.order = {0, 3, 1, 2}});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->text(), "u8 [2, 5, 7, 3] to f32 [2, 3, 5, 7], permuting, exact");
  EXPECT_EQ(plan->kind(), ReshapeClass::permuting);
  EXPECT_EQ(plan->unit(), 4u);
  EXPECT_EQ(plan->source_bytes(), 210u);
  EXPECT_EQ(plan->destination_bytes(), 840u);
  EXPECT_EQ(ReshapePlan::make(types::u8, tensor(types::f32, {8}))->kind(), ReshapeClass::narrowing);
  EXPECT_EQ(ReshapePlan::make(types::f32, tensor(types::u8, {8}))->kind(), ReshapeClass::widening);
  EXPECT_EQ(ReshapePlan::make(*parse_type("i8[32]"), tensor(types::f32, {64}))->unit(), 34u);
}

// Part by part, with no more of the source than the plan names.
TEST(ReshapePlans, ConvertTakesPartsAndRefusesWhatIsNotThere) {
  const auto plan = *ReshapePlan::make(types::i16, tensor(types::f32, {100}));
  std::vector<float> values(100);
  for (int i = 0; i < 100; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(3 * i);
  const ConstByteSpan source = std::as_bytes(std::span(values));
  std::vector<std::int16_t> made(10);
  const ByteSpan to = std::as_writable_bytes(std::span(made));
  EXPECT_TRUE(plan.convert(to, source.subspan(160, 40), 80, 160));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(made[static_cast<std::size_t>(i)], 3 * (40 + i));
  EXPECT_FALSE(plan.convert(to, source.subspan(160, 39), 80, 160));
  EXPECT_FALSE(plan.convert(to, source.subspan(164, 40), 80, 164));
  EXPECT_FALSE(plan.convert(to, source, 181));
  EXPECT_TRUE(plan.convert(to, source, 180));
  EXPECT_TRUE(plan.convert({}, {}, 200));
  EXPECT_FALSE(plan.convert({}, {}, 201));
}

}  // namespace
}  // namespace gantry
