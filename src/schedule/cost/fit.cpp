#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/result.hpp"
#include "schedule/cost/costs.hpp"

// Products as measured: for given knees the model is linear in its start and its two rates, which
// least squares find; the knees are sought one after the other.
namespace gantry {
namespace {

constexpr std::size_t kUnknowns = 3;  // start, time of a flop, time of a byte
using Row = std::array<double, kUnknowns>;

struct Solution {
  Row values{};
  double error = std::numeric_limits<double>::infinity();  // sum of squares
};

/// Of each sample what the unknowns are multiplied with, divided by its time.
std::vector<Row> rows_of(std::span<const ProductSample> samples, const std::array<double, 3>& knees,
                         Bytes bytes) {
  std::vector<Row> rows;
  for (const ProductSample& one : samples) {
    const auto m = static_cast<double>(one.m);
    const auto n = static_cast<double>(one.n);
    const auto k = static_cast<double>(one.k);
    const double work =
        2 * m * n * k * (1 + knees[0] / m) * (1 + knees[1] / n) * (1 + knees[2] / k);
    const double traffic = one.adds ? 2 * m * n * static_cast<double>(bytes) : 0;
    rows.push_back({1 / one.seconds, work / one.seconds, traffic / one.seconds});
  }
  return rows;
}

/// Least squares for the unknowns of `used`; nothing if they cannot be told apart or are negative.
Solution solve(const std::vector<Row>& rows, const std::array<bool, kUnknowns>& used) {
  // Each unknown is scaled to about 1: seconds, flops and bytes are far apart.
  Row scale{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < kUnknowns; ++i) scale[i] = std::max(scale[i], row[i]);
  std::array<std::array<double, kUnknowns + 1>, kUnknowns> matrix{};
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    if (!used[i] || scale[i] == 0) {
      matrix[i][i] = 1;
      continue;
    }
    for (const Row& row : rows) {
      for (std::size_t j = 0; j < kUnknowns; ++j)
        if (used[j] && scale[j] > 0) matrix[i][j] += row[i] / scale[i] * row[j] / scale[j];
      matrix[i][kUnknowns] += row[i] / scale[i];
    }
  }
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    if (std::abs(matrix[i][i]) < 1e-12) return {};
    for (std::size_t j = 0; j < kUnknowns; ++j) {
      if (j == i) continue;
      const double factor = matrix[j][i] / matrix[i][i];
      for (std::size_t c = 0; c <= kUnknowns; ++c) matrix[j][c] -= factor * matrix[i][c];
    }
  }
  Solution result{.error = 0};
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    const double value = matrix[i][kUnknowns] / matrix[i][i];
    if (value < 0 || (i == 1 && value <= 0)) return {};
    result.values[i] = scale[i] > 0 ? value / scale[i] : 0;
  }
  for (const Row& row : rows) {
    double sum = -1;
    for (std::size_t i = 0; i < kUnknowns; ++i) sum += row[i] * result.values[i];
    result.error += sum * sum;
  }
  return result;
}

Solution solve(const std::vector<Row>& rows) {
  Solution best;
  for (const bool start : {true, false})
    for (const bool traffic : {true, false})
      if (Solution one = solve(rows, {start, true, traffic}); one.error < best.error) best = one;
  return best;
}

/// Steps of a knee that are tried, by factor and as they are.
constexpr std::array kFactors = {0.5, 0.8, 0.95, 0.99, 1.01, 1.05, 1.25, 2.0};
constexpr std::array kFirst = {0.0, 1.0, 8.0, 64.0, 512.0};
constexpr double kMostKnee = 1e6;  // noise of tiny products would drive it on for ever

/// Which sides differ among the samples. The knee of one that does not is a factor of the rate, and
/// would be whatever the others leave.
std::array<bool, 3> sides_that_differ(std::span<const ProductSample> samples) {
  std::array<bool, 3> differ{};
  for (const ProductSample& one : samples) {
    differ[0] = differ[0] || one.m != samples.front().m;
    differ[1] = differ[1] || one.n != samples.front().n;
    differ[2] = differ[2] || one.k != samples.front().k;
  }
  return differ;
}

/// A rate of adding that nobody could tell from a higher one: it takes a hundredth of each product
/// that adds, at most. Without such products nothing is known, and it stays what it is by default.
double most_adding_bytes_per_s(std::span<const ProductSample> samples, Bytes bytes) {
  constexpr double kUnseen = 0.01;
  double most = 0;
  for (const ProductSample& one : samples) {
    if (!one.adds) continue;
    const double traffic =
        2 * static_cast<double>(one.m) * static_cast<double>(one.n) * static_cast<double>(bytes);
    most = std::max(most, traffic / (kUnseen * one.seconds));
  }
  return most > 0 ? most : ProductCosts{}.adding_bytes_per_s;
}

}  // namespace

Result<ProductFit> fit_products(std::span<const ProductSample> samples, Bytes bytes) {
  constexpr std::size_t kFewest = 4;
  constexpr int kMostSweeps = 200;
  if (samples.size() < kFewest)
    return fail(Code::invalid_argument, fmt::format("{} measured products", samples.size()),
                fmt::format("at least {}", kFewest));
  for (const ProductSample& one : samples)
    if (one.m < 1 || one.n < 1 || one.k < 1 || !std::isfinite(one.seconds) || one.seconds <= 0)
      return fail(Code::invalid_argument, fmt::format("a product of {} x {} x {} in {} s", one.m,
                                                      one.n, one.k, one.seconds));
  return guarded([&]() -> Result<ProductFit> {
    std::array<double, 3> knees{};
    const std::array<bool, 3> differ = sides_that_differ(samples);
    Solution best = solve(rows_of(samples, knees, bytes));
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      const double before = best.error;
      for (std::size_t i = 0; i < knees.size(); ++i) {
        if (!differ[i]) continue;
        const double from = knees[i];
        const auto attempt = [&](double knee) {
          if (knee > kMostKnee) return;
          std::array<double, 3> changed = knees;
          changed[i] = knee;
          Solution one = solve(rows_of(samples, changed, bytes));
          if (one.error < best.error) best = one, knees = changed;
        };
        for (const double factor : kFactors) attempt(from * factor);
        for (const double first : kFirst) attempt(first);
      }
      if (best.error >= before) break;
    }
    if (!std::isfinite(best.error))
      return fail(Code::invalid_argument, "no costs explain what was measured",
                  "measure products of several sizes");
    const double error = std::sqrt(best.error / static_cast<double>(samples.size()));
    const double most = most_adding_bytes_per_s(samples, bytes);
    const double adding = best.values[2] > 0 ? std::min(most, 1 / best.values[2]) : most;
    return ProductFit{
        {best.values[0] * kNsPerS, 1 / best.values[1], knees[0], knees[1], knees[2], adding},
        error};
  });
}

}  // namespace gantry
