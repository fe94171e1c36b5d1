#include <gtest/gtest.h>

#include "shape/decision/test_decisions.hpp"
#include "shape/reshape/test_rows.hpp"

namespace gantry {
namespace {

using namespace test;
using shape::Element;

struct Rows {
  std::size_t width, group;
  std::vector<float> values;
  std::vector<float> query;
};

// Rows about levels of their own, so that bounds tell them apart, or of hard numbers.
Rows random_rows(Random& random, std::size_t count, std::size_t group, std::size_t groups) {
  Rows rows{group * groups, group, {}, {}};
  const unsigned kind = random() % 3 == 0 ? static_cast<unsigned>(random() % 8) : 1;
  for (std::size_t i = 0; i < count * rows.width; ++i) {
    const std::size_t level = kind == 1 ? i / rows.width * 7 % 23 : 0;
    rows.values.push_back(hard_value(random, kind, 1) + static_cast<float>(level));
  }
  const std::size_t near = below(random, count);
  for (std::size_t j = 0; j < rows.width; ++j) {
    const float value = rows.values[near * rows.width + j] + hard_value(random, 1, 0) / 8;
    rows.query.push_back(std::isfinite(value) ? value : 2);
  }
  return rows;
}

Sample in_planes(const Rows& rows, Planes::Unit unit, std::size_t rows_of_block) {
  return sample_of(Element::f32, rows.values,
                   {unit, static_cast<std::int64_t>(rows_of_block * rows.width),
                    static_cast<std::uint16_t>(rows.group)});
}

Result<Decided> nearest(const Sample& sample, const Rows& rows, std::size_t k,
                        Bytes budget = std::numeric_limits<Bytes>::max()) {
  return decide(sample.planes, sample.elements, Decision::nearest(rows.query, k),
                {.budget_bytes = budget, .bounds = BoundsUse::trusted});
}

TEST(NearRows, AreThoseOfAScanWhateverTheVectors) {
  shape::on_every_target([] {
    Random random(31);
    Bytes read = 0, all = 0;
    for (int round = 0; round < 600; ++round) {
      const std::size_t count = 1 + below(random, 300);
      const Rows rows =
          random_rows(random, count, 8 * (1 + below(random, 3)), 1 + below(random, 10));
      const Sample sample =
          in_planes(rows, random() % 2 == 0 ? Planes::Unit::bytes : Planes::Unit::bits,
                    random() % 2 * below(random, 90));
      const std::size_t k = 1 + below(random, std::min<std::size_t>(count, 6));
      const Result<Decided> decided = nearest(sample, rows, k);
      ASSERT_TRUE(decided && decided->proven);
      ASSERT_EQ(decided->indices, scan(values_of(sample), Decision::nearest(rows.query, k)))
          << round;
      read += decided->bytes_read, all += sample.planes.size();
    }
    EXPECT_LT(read, all / 2);
  });
}

// More than are sampled for the rows that are read first.
TEST(NearRows, AreFoundAmongManyAndOfEqualsTheFirst) {
  Random random(32);
  Rows rows = random_rows(random, 8500, 8, 32);
  const auto row = [&](std::size_t i) {
    return rows.values.begin() + static_cast<std::ptrdiff_t>(i) * 256;
  };
  for (std::size_t j = 0; j < rows.values.size(); ++j)
    rows.values[j] = std::sin(static_cast<float>(j / 8 % 7919)) * 9 + hard_value(random, 1, 0) / 9;
  std::copy_n(row(8000), 256, row(3000));
  std::copy_n(row(8000), 256, row(140));
  rows.query.assign(row(8000), row(8001));
  for (const std::size_t rows_of_block : {0u, 100u, 4096u}) {
    const Sample sample = in_planes(rows, Planes::Unit::bytes, rows_of_block);
    const Decided decided = *nearest(sample, rows, 7);
    EXPECT_TRUE(decided.proven);
    EXPECT_EQ(decided.indices, scan(values_of(sample), Decision::nearest(rows.query, 7)));
    EXPECT_EQ(decided.indices[1], 3000u);
    EXPECT_LT(decided.bytes_read, sample.planes.size() * 3 / 10);  // the bounds are 2 of 10
  }
}

TEST(NearRows, AreGuessedIfABudgetEnds) {
  Random random(33);
  int right = 0, unproven = 0;
  for (int round = 0; round < 300; ++round) {
    const Rows rows = random_rows(random, 200, 8, 4);
    const Sample sample = in_planes(rows, Planes::Unit::bytes, 0);
    const Bytes bounds = 200 * 4 * 8, budget = bounds + below(random, sample.planes.size() / 8);
    const std::size_t k = 1 + below(random, 200);
    const Decided decided = *nearest(sample, rows, k, budget);
    EXPECT_LE(decided.bytes_read, budget);
    std::vector<std::size_t> sorted = decided.indices;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted.size(), k);
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
    EXPECT_LT(sorted.back(), 200u);
    const auto true_ones = scan(values_of(sample), Decision::nearest(rows.query, k));
    EXPECT_TRUE(!decided.proven || decided.indices == true_ones);
    unproven += !decided.proven;
    right += !decided.proven && decided.indices[0] == true_ones[0];
  }
  EXPECT_GT(unproven, 100);
  EXPECT_GT(right, unproven / 4);
}

TEST(NearRows, TellOffWhoMadeBoundsThatContradictThem) {
  Random random(34);
  for (const auto unit : {Planes::Unit::bytes, Planes::Unit::bits}) {
    Rows rows = random_rows(random, 50, 16, 3);
    for (float& value : rows.values) value = 1 + static_cast<float>(below(random, 1000)) / 1000;
    rows.query.assign(rows.values.begin() + 48 * 20, rows.values.begin() + 48 * 21);
    Sample sample = in_planes(rows, unit, 0);
    ASSERT_EQ(nearest(sample, rows, 1)->indices[0], 20u);
    const auto largest =  // of the row's second group
        std::max_element(rows.values.begin() + 48 * 20 + 16, rows.values.begin() + 48 * 20 + 32);
    const std::uint32_t lower = std::bit_cast<std::uint32_t>(*largest) - 1 + 0x80000000u;
    std::memcpy(&sample.planes[(20 * 3 + 1) * 8 + 4], &lower, sizeof lower);
    const Result<Decided> decided = nearest(sample, rows, 1);
    ASSERT_FALSE(decided);
    EXPECT_EQ(decided.error().code, Code::peer_misbehaved);
    const auto element = std::to_string(largest - rows.values.begin());
    EXPECT_EQ(decided.error().message,
              "planes: the bounds of its group contradict element " + element);
  }
}

}  // namespace
}  // namespace gantry
