#pragma once  // decision/test_decisions.hpp: questions, data, and the answers of a plain scan.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gantry/decision.hpp>
#include <numeric>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <gtest/gtest.h>
#include <xmmintrin.h>
#endif

#include "core/base/half_float.hpp"
#include "shape/reshape/planes.hpp"

namespace gantry::test {

using Memory = std::vector<std::byte>;
using Random = std::mt19937_64;

/// Elements, dense, and the same in planes.
struct Sample {
  shape::Element element;
  Memory dense;
  PlanedElements elements;
  Memory planes;
};

inline void put_in_planes(Sample& sample) {
  const auto layout =
      *shape::PlaneLayout::make(sample.element, sample.elements.count, sample.elements.planes);
  sample.planes.assign(layout.bytes(), std::byte{});
  make_planes(layout, sample.planes.data(), 0, sample.planes.size(), sample.dense.data());
}

template <class T>
Sample sample_of(shape::Element element, const std::vector<T>& values, const Planes& planes) {
  Sample sample{element, Memory(values.size() * sizeof(T)), {}, {}};
  std::memcpy(sample.dense.data(), values.data(), sample.dense.size());
  sample.elements = {shape::facts_of(element).type, static_cast<std::int64_t>(values.size()),
                     planes};
  put_in_planes(sample);
  return sample;
}

template <class T>
T at(const Sample& sample, std::size_t index) {
  T value;
  std::memcpy(&value, sample.dense.data() + index * sizeof(T), sizeof(T));
  return value;
}

inline double value_at(const Sample& sample, std::size_t i) {
  using shape::Element;
  switch (sample.element) {
    case Element::u8:
      return at<std::uint8_t>(sample, i);
    case Element::i8:
      return at<std::int8_t>(sample, i);
    case Element::u16:
      return at<std::uint16_t>(sample, i);
    case Element::i16:
      return at<std::int16_t>(sample, i);
    case Element::i32:
      return at<std::int32_t>(sample, i);
    case Element::f16:
      return static_cast<double>(float_of_f16(at<std::uint16_t>(sample, i)));
    case Element::bf16:
      return static_cast<double>(float_of_bf16(at<std::uint16_t>(sample, i)));
    case Element::f32:
      return static_cast<double>(at<float>(sample, i));
    case Element::f64:
      return at<double>(sample, i);
    case Element::e5m2:
      return static_cast<double>(
          float_of_f16(static_cast<std::uint16_t>(at<std::uint8_t>(sample, i) << 8)));
    default:
      break;
  }
  const unsigned bits = at<std::uint8_t>(sample, i);  // e4m3fn
  const double sign = bits >= 128 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 3 & 15u), digits = static_cast<int>(bits & 7u);
  if ((bits & 127u) == 127) return std::nan("");
  return exponent == 0 ? sign * digits / 512 : sign * std::ldexp(8 + digits, exponent - 10);
}

inline std::vector<double> values_of(const Sample& sample) {
  std::vector<double> values(static_cast<std::size_t>(sample.elements.count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(sample, i);
  return values;
}

/// The first k by falling score, of equals the lowest index; NaN last.
inline std::vector<std::size_t> first_of(const std::vector<double>& scores, std::size_t k) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b]))
      return !std::isnan(scores[a]) && std::isnan(scores[b]);
    return scores[a] > scores[b];
  });
  order.resize(k);
  return order;
}

inline double distance(const double* row, const std::vector<float>& query, Metric metric) {
  double sum = 0;
  for (std::size_t j = 0; j < query.size(); ++j) {
    const double q = static_cast<double>(query[j]);
    sum += metric == Metric::l2 ? (row[j] - q) * (row[j] - q) : row[j] * q;
  }
  return metric == Metric::l2 ? -sum : sum;
}

/// What a scan of all values answers.
inline std::vector<std::size_t> scan(const std::vector<double>& values, const Decision& question) {
  const detail::DecisionParts& parts = question.parts();
  std::vector<double> scores = values;
  if (parts.kind == detail::DecisionParts::Kind::nearest) {
    scores.assign(values.size() / parts.query.size(), 0);
    for (std::size_t row = 0; row < scores.size(); ++row)
      scores[row] = distance(&values[row * parts.query.size()], parts.query, parts.metric);
    return first_of(scores, parts.k);
  }
  const auto best_of = [&](ElementRange range) {
    double best = std::nan("");
    for (std::size_t i = range.first; i < range.end(); ++i)
      if (std::isnan(best) || values[i] > best) best = values[i];
    return best;
  };
  if (parts.has_ranges) {
    scores.clear();
    for (const ElementRange range : parts.ranges) scores.push_back(best_of(range));
  }
  if (parts.kind == detail::DecisionParts::Kind::top) return first_of(scores, parts.k);
  std::vector<std::size_t> above;
  if (parts.kind == detail::DecisionParts::Kind::any_of) {
    for (std::size_t i = 0; i < scores.size(); ++i)
      if (scores[i] > parts.limit) above.push_back(i);
    return above;
  }
  std::vector<ElementRange> regions = parts.ranges;
  if (!parts.has_ranges) regions = {{0, values.size()}};
  for (const ElementRange region : regions) {
    for (std::size_t i = region.first; i < region.end(); ++i)
      if (values[i] > parts.limit) above.push_back(i);
  }
  return above;
}

#if defined(__x86_64__)
/// Runs `body` while the thread takes denormal numbers for 0 and rounds upward; it still does then.
template <class Body>
auto while_flushing(const Body& body) {
  constexpr unsigned kFlushing = 0x9fc0 | 0x4000;  // FTZ, DAZ, upward
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kFlushing);
  auto result = body();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0xffc0u, kFlushing);
  return result;
}
#endif

inline std::size_t below(Random& random, std::size_t limit) {
  return random() % limit;
}

// Random bits have every NaN, infinity and denormal number; the rest is made to be hard.
inline float hard_value(Random& random, unsigned kind, float base) {
  switch (kind) {
    case 0:
      return std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    case 1:
      return static_cast<float>(std::normal_distribution<double>(0, 3)(random));
    case 2:  // near ties
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(base) +
                                  static_cast<std::uint32_t>(random() % 4));
    case 3:
      return random() % 2 == 0 ? 0.0f : -0.0f;
    case 4:  // denormal numbers of both signs
      return std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x807fffffu);
    case 5:
      return -std::abs(static_cast<float>(std::normal_distribution<double>(8, 1)(random)));
    case 6: {
      const float special[] = {HUGE_VALF, -HUGE_VALF, std::nanf(""), -std::nanf(""),
                               0.0f,      -0.0f,      1e30f,         -1e30f};
      return special[random() % 8];
    }
    default:
      return static_cast<float>(random() % 5);
  }
}

inline std::vector<ElementRange> random_ranges(Random& random, std::size_t count) {
  std::vector<ElementRange> ranges;
  for (std::size_t left = 1 + below(random, 6); left > 0; --left) {
    const std::size_t first = below(random, count);
    ranges.push_back({first, 1 + below(random, count - first)});
  }
  return ranges;
}

/// Of any kind, about those values.
inline Decision random_question(Random& random, const std::vector<double>& values) {
  const std::size_t count = values.size();
  const double limit = [&] {  // often one of the values
    const double one = values[below(random, count)];
    return std::isnan(one) ? 0 : one;
  }();
  switch (random() % 6) {
    case 0:
      return Decision::top(1);
    case 1:
      return Decision::top(1 + below(random, std::min<std::size_t>(count, 10)));
    case 2: {
      const std::vector<ElementRange> groups = random_ranges(random, count);
      return Decision::top(1 + below(random, groups.size())).among(groups);
    }
    case 3: {
      const std::size_t first = below(random, count);
      return random() % 2 == 0 ? Decision::above(limit)
                               : Decision::above(limit, {first, 1 + below(random, count - first)});
    }
    case 4:
      return Decision::any_of(limit, random_ranges(random, count));
    default:
      break;
  }
  std::size_t width = 1 + below(random, std::min<std::size_t>(count, 24));
  while (count % width != 0) --width;
  std::vector<float> query(width);
  const std::size_t near = below(random, count / width);
  for (std::size_t j = 0; j < width; ++j) {
    const auto value = static_cast<float>(values[near * width + j]);
    query[j] = std::isfinite(value) ? value : 1.0f;
    if (random() % 4 == 0) query[j] = std::nextafter(query[j], 0.0f);
  }
  return Decision::nearest(std::move(query),
                           1 + below(random, std::min<std::size_t>(count / width, 5)),
                           random() % 3 == 0 ? Metric::inner_product : Metric::l2);
}

}  // namespace gantry::test
