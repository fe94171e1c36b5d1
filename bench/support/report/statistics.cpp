#include "statistics.hpp"

#include <algorithm>
#include <cmath>

namespace gantry::bench {
namespace {

double nth(std::span<double> values, std::size_t rank) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double median(std::span<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.size() / 2;
  const double upper = nth(values, middle);
  if (values.size() % 2 == 1) return upper;
  return (nth(values, middle - 1) + upper) / 2;
}

double percentile(std::span<double> values, double share) {
  if (values.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto last = static_cast<double>(values.size());
  return nth(values, static_cast<std::size_t>(std::clamp(rank, 1.0, last)) - 1);
}

Summary summarize(std::span<double> rounds) {
  if (rounds.empty()) return {};
  const auto [low, high] = std::minmax_element(rounds.begin(), rounds.end());
  const double min = *low;
  const double max = *high;
  return {median(rounds), min, max, rounds.size()};
}

}  // namespace gantry::bench
