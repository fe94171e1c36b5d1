#include <gtest/gtest.h>

#include <cstdio>

#include "core/base/test_effort.hpp"
#include "shape/decision/test_decisions.hpp"

// What decisions read of data as it is met, and how often a guess is wrong: against numbers of 8
// bits, evenly spaced from the least to the largest, read whole, which take as many bytes as the
// guess may read.
namespace gantry {
namespace {

using namespace test;
using shape::Element;

constexpr std::size_t kCount = 1000, kWidth = 64;

struct Case {
  const char* name;
  std::vector<float> values;
  Decision question;
  std::size_t vector;  // values that share a least and a largest number
};

float normal(Random& random, double mean, double deviation) {
  return static_cast<float>(std::normal_distribution<double>(mean, deviation)(random));
}

std::vector<float> logits(Random& random, std::size_t classes) {
  std::vector<float> values(classes);
  for (float& each : values) each = normal(random, -1, 2.5);
  return values;
}

std::vector<float> probabilities(Random& random, std::size_t classes) {
  std::vector<float> values(classes);
  for (float& each : values) each = 1 / (1 + std::exp(normal(random, 4, 2)));
  return values;
}

std::vector<ElementRange> tenths(std::size_t classes) {
  std::vector<ElementRange> groups;
  for (std::size_t i = 0; i < 10; ++i) groups.push_back({i * classes / 10, classes / 10});
  return groups;
}

// Descriptors of length 1 about some centres, as embeddings are; the query is near one of them.
Case descriptors(Random& random, std::size_t rows, std::size_t k, Metric metric) {
  std::vector<float> centres(40 * kWidth), values(rows * kWidth), query(kWidth);
  for (float& each : centres) each = normal(random, 0, 1);
  const auto make = [&](float* row, std::size_t centre) {
    float length = 0;
    for (std::size_t j = 0; j < kWidth; ++j) {
      row[j] = centres[centre * kWidth + j] + normal(random, 0, 0.6);
      length += row[j] * row[j];
    }
    for (std::size_t j = 0; j < kWidth; ++j) row[j] /= std::sqrt(length);
  };
  for (std::size_t row = 0; row < rows; ++row) make(&values[row * kWidth], below(random, 40));
  make(query.data(), below(random, 40));
  return {metric == Metric::l2 ? (k == 1 ? "nearest 1" : "nearest 5") : "nearest by product",
          std::move(values), Decision::nearest(std::move(query), k, metric), kWidth};
}

/// About so many classes, or rows.
Case random_case(Random& random, std::size_t kind, std::size_t count) {
  switch (kind) {
    case 0:
      return {"top 1", logits(random, count), Decision::top(1), count};
    case 1:
      return {"top 5", logits(random, count), Decision::top(5), count};
    case 2:
      return {"top 1 among 10", logits(random, count), Decision::top(1).among(tenths(count)),
              count};
    case 3:
      return {"above", probabilities(random, count), Decision::above(0.5), count};
    case 4:
      return {"any of 10", probabilities(random, count), Decision::any_of(0.7, tenths(count)),
              count};
    case 5:
      return descriptors(random, count, 1, Metric::l2);
    case 6:
      return descriptors(random, count, 5, Metric::l2);
    default:
      return descriptors(random, count, 1, Metric::inner_product);
  }
}
constexpr std::size_t kKinds = 8;

std::vector<double> in_eight_bits(const Case& all) {
  std::vector<double> values;
  for (std::size_t first = 0; first < all.values.size(); first += all.vector) {
    const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(first);
    const auto [least, largest] =
        std::minmax_element(begin, begin + static_cast<std::ptrdiff_t>(all.vector));
    const double low = static_cast<double>(*least);
    const double step = (static_cast<double>(*largest) - low) / 255;
    for (std::size_t i = first; i < first + all.vector; ++i)
      values.push_back(low + step * std::round((static_cast<double>(all.values[i]) - low) / step));
  }
  return values;
}

struct Figures {
  int decisions = 0, wrong = 0, wrong_of_eight_bits = 0;
  double share = 0;
};

void print(const char* name, const Figures& figures) {
  std::printf(
      "%-20s %5d decisions, %4.1f %% of the bytes; at 1 byte an element %4d wrong, 8 bits "
      "%4d\n",
      name, figures.decisions, 100 * figures.share / figures.decisions, figures.wrong,
      figures.wrong_of_eight_bits);
}

TEST(Quality, HalfOfTheBytesAndFewerWrongThanEightBits) {
  Random random(11);
  Figures all;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    Figures figures;
    const char* name = "";
    for (int round = 0; round < (kind < 5 ? 500 : 60); ++round) {
      const Case one = random_case(random, kind, kCount);
      const Sample sample = sample_of(Element::f32, one.values, {Planes::Unit::bits, 0, 0});
      const std::vector<std::size_t> right = scan(values_of(sample), one.question);
      const Decided proven = *decide(sample.planes, sample.elements, one.question);
      ASSERT_TRUE(proven.proven);
      ASSERT_EQ(proven.indices, right);
      const Decided guess = *decide(sample.planes, sample.elements, one.question,
                                    {.budget_bytes = one.values.size()});
      ASSERT_TRUE(!guess.proven || guess.indices == right);
      name = one.name;
      ++figures.decisions;
      figures.share +=
          static_cast<double>(proven.bytes_read) / static_cast<double>(sample.planes.size());
      figures.wrong += guess.indices != right;
      figures.wrong_of_eight_bits += scan(in_eight_bits(one), one.question) != right;
    }
    print(name, figures);
    all.decisions += figures.decisions, all.share += figures.share, all.wrong += figures.wrong;
    all.wrong_of_eight_bits += figures.wrong_of_eight_bits;
  }
  print("all", all);
  EXPECT_LE(all.share / all.decisions, 0.5);
  EXPECT_LE(all.wrong, 0.57 * all.wrong_of_eight_bits);
}

// Of classes and rows as many as many are asked about; a tenth of the questions is about rows.
TEST(Quality, NoneOfAHundredThousandVerdictsIsWrong) {
  constexpr int kDecisions = 100'000;
  Random random(12);
  int decisions = 0, wrong = 0;
  double share = 0;
  for (int round = 0; round < kDecisions; round += kTestStride) {
    const bool is_of_rows = round % 10 == 0;
    const std::size_t kind = is_of_rows ? 5 + below(random, 3) : below(random, 5);
    const Case one = random_case(random, kind, is_of_rows ? 20 : 10 * (1 + below(random, 20)));
    const Sample sample = sample_of(Element::f32, one.values, {Planes::Unit::bits, 0, 0});
    const Decided decided = *decide(sample.planes, sample.elements, one.question);
    ASSERT_TRUE(decided.proven);
    wrong += decided.indices != scan(values_of(sample), one.question);
    share += static_cast<double>(decided.bytes_read) / static_cast<double>(sample.planes.size());
    ++decisions;
  }
  std::printf("%d decisions, %.1f %% of the bytes\n", decisions, 100 * share / decisions);
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(share / decisions, 0.5);
}

}  // namespace
}  // namespace gantry
