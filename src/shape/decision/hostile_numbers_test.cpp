#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shape/decision/test_decisions.hpp"
#include "shape/reshape/test_rows.hpp"

// Numbers at the ends of their types. Property: what is proven is what a scan of all says, to the
// last place, whatever the vectors and the floating-point mode of the thread that asks.
namespace gantry {
namespace {

using namespace test;
using shape::Element;
using testing::ElementsAre;

/// Huge, tiny, of no size or of no value; often one of its neighbours.
template <class T>
T hostile(Random& random) {
  using Limits = std::numeric_limits<T>;
  const T huge = std::sqrt(Limits::max());  // its square is about the largest number
  const T numbers[] = {0,
                       Limits::max(),
                       Limits::max() / 2,
                       huge,
                       huge * T(0.9),
                       huge * huge / 3,
                       Limits::min(),
                       Limits::min() / 3,
                       Limits::denorm_min(),
                       Limits::denorm_min() * 3,
                       Limits::infinity(),
                       Limits::quiet_NaN(),
                       1,
                       std::sqrt(Limits::min())};
  T number = numbers[random() % std::size(numbers)];
  if (random() % 4 == 0) number = std::nextafter(number, T(1));
  return random() % 2 == 0 ? number : -number;
}

/// Rows of a few such numbers, so that there are ties, or of many.
template <class T>
std::vector<T> hostile_values(Random& random, std::size_t count) {
  std::vector<T> few(1 + below(random, 6));
  for (T& each : few) each = hostile<T>(random);
  const bool of_few = random() % 2 == 0;
  std::vector<T> values(count);
  for (T& each : values) each = of_few ? few[below(random, few.size())] : hostile<T>(random);
  return values;
}

std::vector<float> finite_query(Random& random, std::size_t width) {
  std::vector<float> query(width);
  for (float& each : query) {
    do each = random() % 3 == 0 ? 0 : hostile<float>(random);
    while (!std::isfinite(each));
  }
  return query;
}

template <class T>
void compare_with_a_scan(Random& random, Element element) {
  const std::size_t width = random() % 2 == 0 ? 8 * (1 + below(random, 4)) : 1 + below(random, 3);
  const std::size_t rows = 1 + below(random, 40);
  const std::vector<T> values = hostile_values<T>(random, rows * width);
  const bool has_groups = width % 8 == 0 && random() % 2 == 0;
  const Sample sample = sample_of(element, values,
                                  {random() % 2 == 0 ? Planes::Unit::bits : Planes::Unit::bytes,
                                   static_cast<std::int64_t>(random() % 2 * width * 8),
                                   static_cast<std::uint16_t>(has_groups ? 8 : 0)});
  const Decision question =
      Decision::nearest(finite_query(random, width), 1 + below(random, rows),
                        random() % 4 == 0 ? Metric::inner_product : Metric::l2);
  const Result<Decided> decided =
      decide(sample.planes, sample.elements, question,
             {.bounds = random() % 2 == 0 ? BoundsUse::trusted : BoundsUse::checked});
  ASSERT_TRUE(decided) << to_string(decided.error());
  ASSERT_TRUE(decided->proven);
  ASSERT_EQ(decided->indices, scan(values_of(sample), question));
}

TEST(HostileNumbers, HaveTheirPlacesAmongTheNearest) {
  shape::on_every_target([] {
    Random random(41);
    for (int round = 0; round < 600 && !testing::Test::HasFatalFailure(); ++round) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(round));
      compare_with_a_scan<float>(random, Element::f32);
      compare_with_a_scan<double>(random, Element::f64);
    }
  });
}

// Half of the sum of two distances may be beyond all numbers though neither is.
TEST(HostileNumbers, DoNotOverflowWhereTheyAreOrdered) {
  for (const auto unit : {Planes::Unit::bits, Planes::Unit::bytes}) {
    const Sample sample = sample_of<double>(Element::f64, {1e200, 1.2e154}, {unit, 0, 0});
    const Decided decided = *decide(sample.planes, sample.elements, Decision::nearest({0}, 2));
    EXPECT_TRUE(decided.proven);
    EXPECT_THAT(decided.indices, ElementsAre(1, 0));
  }
}

// True, though they say nothing: groups that are said to have anything, NaNs as well.
TEST(HostileNumbers, MayBeWithinBoundsThatSayNothing) {
  shape::on_every_target([] {
    Random random(42);
    for (int round = 0; round < 300; ++round) {
      const std::size_t rows = 1 + below(random, 60), groups = 1 + below(random, 3);
      std::vector<float> values(rows * groups * 8);
      for (float& each : values) each = hard_value(random, 1, 0);
      Sample sample = sample_of(Element::f32, values, {Planes::Unit::bytes, 0, 8});
      for (std::size_t group = 0; group < rows * groups; ++group) {
        const unsigned ends = random() % 4;  // which of both say nothing
        if (ends & 1u) std::fill_n(&sample.planes[group * 8], 4, std::byte{0});
        if (ends & 2u) std::fill_n(&sample.planes[group * 8 + 4], 4, std::byte{0xff});
      }
      const Decision question =
          Decision::nearest({values.data(), values.data() + groups * 8}, 1 + below(random, rows));
      const Decided decided =
          *decide(sample.planes, sample.elements, question, {.bounds = BoundsUse::trusted});
      ASSERT_TRUE(decided.proven);
      ASSERT_EQ(decided.indices, scan(values_of(sample), question)) << round;
    }
  });
}

#if defined(__x86_64__)
TEST(HostileNumbers, BelowTheNormalOnesAreDecidedWhateverTheThreadsMode) {
  const Sample sample = sample_of<float>(Element::f32, {-1, 1e-40f, 0, 2e-39f, -1e-40f, 1},
                                         {Planes::Unit::bits, 0, 0});
  const auto ask = [&](const Decision& question) {
    return while_flushing(
        [&] { return decide(sample.planes, sample.elements, question)->indices; });
  };
  EXPECT_THAT(ask(Decision::above(0)), ElementsAre(1, 3, 5));
  EXPECT_THAT(ask(Decision::any_of(0, {{0, 3}, {3, 1}, {4, 1}})), ElementsAre(0, 1));
  EXPECT_THAT(ask(Decision::top(4)), ElementsAre(5, 3, 1, 2));
  EXPECT_THAT(ask(Decision::nearest({1e-40f}, 3)), ElementsAre(1, 2, 4));
  const Bounds bounds =
      while_flushing([&] { return *bounds_of(sample.planes, sample.elements, {1, 4}, 32); });
  EXPECT_EQ(bounds.lo, static_cast<double>(-1e-40f));
  EXPECT_EQ(bounds.hi, static_cast<double>(2e-39f));
}

// Of doubles also distances are below the normal ones.
TEST(HostileNumbers, AreRoundedToNearestWhateverTheThreadsMode) {
  Random random(43);
  for (int round = 0; round < 4000; ++round) {
    const std::size_t width = random() % 2 == 0 ? 8 : 1 + below(random, 20), rows = 10;
    std::vector<double> wide(width * rows);
    for (double& each : wide) each = std::ldexp(hard_value(random, 1, 0), -530);
    std::vector<float> values(width * rows);
    for (float& each : values) each = hard_value(random, random() % 2 == 0 ? 4 : 1, 0);
    const Planes planes{Planes::Unit::bytes, 0,
                        static_cast<std::uint16_t>(width == 8 ? random() % 2 * 8 : 0)};
    const Sample sample = round % 2 == 0 ? sample_of(Element::f64, wide, planes)
                                         : sample_of(Element::f32, values, planes);
    const Decision question = Decision::nearest(
        round % 2 == 0 ? std::vector<float>(width) : finite_query(random, width), rows);
    const Decided decided = while_flushing([&] {
      return *decide(sample.planes, sample.elements, question, {.bounds = BoundsUse::trusted});
    });
    ASSERT_TRUE(decided.proven);
    ASSERT_EQ(decided.indices, scan(values_of(sample), question)) << round;
  }
}
#endif

}  // namespace
}  // namespace gantry
