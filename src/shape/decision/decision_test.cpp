#include <gantry/decision.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "shape/decision/test_decisions.hpp"

namespace gantry {
namespace {

using namespace test;
using shape::Element;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Element kTaken[] = {Element::u8,  Element::i8,     Element::u16,  Element::i16,
                              Element::i32, Element::f16,    Element::bf16, Element::f32,
                              Element::f64, Element::e4m3fn, Element::e5m2};

Planes random_planes(Random& random) {
  Planes planes;
  planes.unit = random() % 2 == 0 ? Planes::Unit::bytes : Planes::Unit::bits;
  planes.block = static_cast<std::int64_t>(random() % 3 * 8 * (random() % 8));
  planes.bounds_group = static_cast<std::uint16_t>(random() % 3 * (random() % 20));
  return planes;
}

Sample random_sample(Random& random) {
  const std::size_t count = 1 + below(random, random() % 8 == 0 ? 400 : 60);
  const unsigned kind = static_cast<unsigned>(random() % 9);
  const float base = hard_value(random, random() % 2 == 0 ? 1 : 5, 0);
  Planes planes = random_planes(random);
  if (kind != 8 && random() % 2 == 0) {
    std::vector<float> values(count);
    for (float& each : values)
      each =
          hard_value(random, random() % 16 == 0 ? static_cast<unsigned>(random() % 8) : kind, base);
    return sample_of(Element::f32, values, planes);
  }
  const Element element = kTaken[random() % std::size(kTaken)];
  std::vector<std::uint8_t> bytes(count * shape::facts_of(element).bits / 8);
  for (std::uint8_t& each : bytes)
    each = static_cast<std::uint8_t>(kind % 2 == 0 ? random() : random() % 3);
  Sample sample = sample_of(Element::u8, bytes, {Planes::Unit::bytes, 0, 0});
  sample.element = element;
  sample.elements = {shape::facts_of(element).type, static_cast<std::int64_t>(count), planes};
  put_in_planes(sample);
  return sample;
}

TEST(Decisions, ProvenAnswersAreThoseOfAScan) {
  Random random(1);
  int proven = 0, wrong = 0, unproven_right = 0, unproven = 0;
  for (int round = 0; round < 120000; ++round) {
    const Sample sample = random_sample(random);
    const std::vector<double> values = values_of(sample);
    const Decision question = random_question(random, values);
    DecideOptions options;
    if (random() % 4 == 0) options.budget_bytes = below(random, sample.planes.size());
    if (random() % 2 == 0) options.bounds = BoundsUse::trusted;
    const Bytes there =
        random() % 16 == 0 ? below(random, sample.planes.size() + 1) : sample.planes.size();
    const Result<Decided> decided =
        decide(ConstByteSpan(sample.planes).first(there), sample.elements, question, options);
    ASSERT_TRUE(decided) << round << ": " << to_string(decided.error());
    ASSERT_LE(decided->bytes_read, options.budget_bytes);
    const bool right = decided->indices == scan(values, question);
    proven += decided->proven;
    wrong += decided->proven && !right;
    unproven += !decided->proven;
    unproven_right += !decided->proven && right;
    const bool has_all =
        options.budget_bytes > sample.planes.size() && there == sample.planes.size();
    ASSERT_TRUE(decided->proven || !has_all) << round;
  }
  std::printf("proven %d, of them wrong %d; unproven %d, of them right %d\n", proven, wrong,
              unproven, unproven_right);
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(proven, 100000);
}

TEST(Decisions, SayWhatTheHeaderSaysOfEqualsZerosAndNaN) {
  const float nan = std::nanf("");
  const Sample sample =
      sample_of<float>(Element::f32, {nan, -0.0f, 0.0f, -1, nan, 0.0f}, {Planes::Unit::bits, 0, 0});
  const auto ask = [&](const Decision& question) {
    return decide(sample.planes, sample.elements, question)->indices;
  };
  EXPECT_THAT(ask(Decision::top(6)), ElementsAre(1, 2, 5, 3, 0, 4));
  EXPECT_THAT(ask(Decision::top(2).among({{3, 2}, {0, 1}, {1, 1}})), ElementsAre(2, 0));
  EXPECT_THAT(ask(Decision::above(-0.0)), IsEmpty());
  EXPECT_THAT(ask(Decision::above(-1)), ElementsAre(1, 2, 5));
  EXPECT_THAT(ask(Decision::above(-HUGE_VAL, {2, 3})), ElementsAre(2, 3));
  EXPECT_THAT(ask(Decision::any_of(-0.5, {{0, 1}, {3, 3}, {3, 2}, {0, 2}})), ElementsAre(1, 3));
  EXPECT_THAT(ask(Decision::nearest({0, 0}, 3)), ElementsAre(1, 0, 2));  // NaN last, by index
  EXPECT_THAT(ask(Decision::nearest({1, 1}, 1, Metric::inner_product)), ElementsAre(1));
}

TEST(Decisions, BoundsHoldTheValuesAndShrink) {
  Random random(4);
  for (int round = 0; round < 3000; ++round) {
    const Sample sample = random_sample(random);
    const std::vector<double> values = values_of(sample);
    const std::size_t first = below(random, values.size());
    const ElementRange range{first,
                             1 + below(random, std::min<std::size_t>(values.size() - first, 9))};
    const unsigned bits = shape::facts_of(sample.element).bits;
    const unsigned planes = sample.elements.planes.unit == Planes::Unit::bits ? bits : bits / 8;
    Bounds before{-HUGE_VAL, HUGE_VAL, true};
    for (unsigned read = 0; read <= planes; ++read) {
      const Bounds bounds = *bounds_of(sample.planes, sample.elements, range, read);
      EXPECT_TRUE(bounds.lo > bounds.hi || (before.lo <= bounds.lo && bounds.hi <= before.hi));
      EXPECT_LE(bounds.has_nan, before.has_nan);
      for (std::size_t i = range.first; i < range.end(); ++i) {
        EXPECT_TRUE(std::isnan(values[i]) ? bounds.has_nan
                                          : bounds.lo <= values[i] && values[i] <= bounds.hi);
      }
      before = bounds;
    }
    EXPECT_TRUE(range.count > 1 || std::isnan(values[first]) || before.lo == before.hi);
  }
}

TEST(Decisions, BoundsThatContradictTheValuesAreToldOff) {
  Random random(5);
  std::vector<float> values(256);
  for (float& each : values) each = hard_value(random, 1, 0);
  const Sample honest = sample_of(Element::f32, values, {Planes::Unit::bits, 0, 32});
  const std::size_t best = scan(values_of(honest), Decision::top(1))[0];
  // Of the group with the largest: its largest is said to be 1.
  Sample lying = honest;
  const std::uint32_t code = 0xbf800000;
  std::memcpy(lying.planes.data() + best / 32 * 8 + 4, &code, sizeof code);
  for (const Decision& question :
       {Decision::top(1), Decision::nearest(std::vector<float>(8, 3.0f), 1)}) {
    // Not trusted: no wrong proof, and found out where the last digit is read.
    const Result<Decided> checked = decide(lying.planes, lying.elements, question);
    EXPECT_TRUE(checked ? checked->indices == scan(values_of(honest), question)
                        : checked.error().code == Code::peer_misbehaved);
  }
  // One of these limits is decided by the last digit alone.
  std::vector<Error> errors;
  for (const float limit : {values[best], std::nextafter(values[best], 0.0f)}) {
    const Result<Decided> checked =
        decide(lying.planes, lying.elements, Decision::above(static_cast<double>(limit)));
    if (!checked) errors.push_back(checked.error());
  }
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, Code::peer_misbehaved);
  EXPECT_THAT(errors[0].message, HasSubstr("contradict element 1"));
  // Trusted, and the lie is read: above looks at what is not ruled out.
  const Result<Decided> trusting =
      decide(lying.planes, lying.elements, Decision::above(0.5), {.bounds = BoundsUse::trusted});
  ASSERT_FALSE(trusting);
  EXPECT_EQ(trusting.error().code, Code::peer_misbehaved);
}

TEST(Decisions, TrustedBoundsSpareReading) {
  Random random(6);
  std::vector<float> values(4096);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<float>(std::sin(static_cast<double>(i) / 300)) + hard_value(random, 1, 0) / 100;
  const Sample sample = sample_of(Element::f32, values, {Planes::Unit::bytes, 1024, 32});
  const Result<Decided> decided =
      decide(sample.planes, sample.elements, Decision::top(3), {.bounds = BoundsUse::trusted});
  ASSERT_TRUE(decided && decided->proven);
  EXPECT_EQ(decided->indices, scan(values_of(sample), Decision::top(3)));
  EXPECT_LT(decided->bytes_read, 4096 / 32 * 8 + 1200);  // bounds, and a few groups
}

TEST(Decisions, RowsLeftOutByTrustedBoundsAreNotAmongTheNearest) {
  Random random(7);
  Bytes read = 0, all = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t group = 8 * (1 + below(random, 2)), width = group * (1 + below(random, 3));
    const std::size_t rows = 1 + below(random, 80);
    const unsigned kind = random() % 4 == 0 ? static_cast<unsigned>(random() % 8) : 1;
    std::vector<float> values(rows * width);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = hard_value(random, kind, 1) +
                  (kind == 1 ? static_cast<float>(i / group % 9 + i / width * 7 % 23) : 0);
    std::vector<float> query(width);
    const std::size_t near = below(random, rows);
    for (std::size_t j = 0; j < width; ++j) {
      const float value = values[near * width + j];
      query[j] = std::isfinite(value) ? value : 2;
    }
    const Sample sample =
        sample_of(Element::f32, values,
                  {Planes::Unit::bits, static_cast<std::int64_t>(below(random, 3) * width),
                   static_cast<std::uint16_t>(group)});
    const Decision question =
        Decision::nearest(query, 1 + below(random, std::min<std::size_t>(rows, 4)));
    const Decided decided =
        *decide(sample.planes, sample.elements, question, {.bounds = BoundsUse::trusted});
    ASSERT_TRUE(decided.proven);
    ASSERT_EQ(decided.indices, scan(values_of(sample), question)) << round;
    read += decided.bytes_read, all += sample.planes.size();
  }
  EXPECT_LT(read, all / 2);
}

TEST(Decisions, BadQuestionsSayWhatAndWhy) {
  const Sample sample =
      sample_of<float>(Element::f32, std::vector<float>(12), {Planes::Unit::bytes, 0, 0});
  const auto message = [&](const Decision& question) {
    const Result<Decided> decided = decide(sample.planes, sample.elements, question);
    EXPECT_TRUE(!decided && decided.error().code == Code::invalid_argument);
    return decided ? "" : decided.error().message;
  };
  EXPECT_EQ(message(Decision::top(0)), "decision: the first 0 of 12 elements");
  EXPECT_EQ(message(Decision::top(13)), "decision: the first 13 of 12 elements");
  EXPECT_EQ(message(Decision::top(2).among({{0, 3}})), "decision: the first 2 of 1 groups");
  EXPECT_EQ(message(Decision::above(0, {10, 3})), "decision: elements 10 to 13 of 12");
  EXPECT_EQ(message(Decision::above(0, {10, 0})), "decision: elements 10 to 10 of 12");
  EXPECT_THAT(message(Decision::above(0, {2, ~std::size_t{0}})), HasSubstr("of 12"));
  EXPECT_EQ(message(Decision::above(std::nan(""))), "decision: a limit that is NaN");
  EXPECT_THAT(message(Decision::nearest({1, 2, 3, 4, 5}, 1)), HasSubstr("rows of 5 elements"));
  EXPECT_THAT(message(Decision::nearest({}, 1)), HasSubstr("rows of 0 elements"));
  EXPECT_THAT(message(Decision::nearest({HUGE_VALF}, 1)), HasSubstr("inf"));
  EXPECT_EQ(message(Decision::nearest({1, 2, 3}, 5)), "decision: the first 5 of 4 rows");
  Memory longer = sample.planes;
  longer.push_back({});
  EXPECT_THAT(decide(longer, sample.elements, Decision::top(1)).error().message,
              HasSubstr("49 bytes, and 12 elements of f32 have 48"));
  PlanedElements packed = sample.elements;
  packed.type = types::u4;
  EXPECT_FALSE(decide(sample.planes, packed, Decision::top(1)));
  EXPECT_THAT(bounds_of(sample.planes, sample.elements, {0, 1}, 5).error().message,
              HasSubstr("5 planes of 4"));
}

}  // namespace
}  // namespace gantry
