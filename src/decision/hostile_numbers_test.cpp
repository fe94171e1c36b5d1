#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "decision/test_decisions.hpp"
#include "engine/shape/test_rows.hpp"

// Numbers at the ends of their types. Property: what is proven is what a scan of all says, to the
// last place, whatever the vectors.
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

}  // namespace
}  // namespace gantry
