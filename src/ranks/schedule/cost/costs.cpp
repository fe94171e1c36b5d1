#include "ranks/schedule/cost/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry {
namespace {

constexpr double kMost = 1e30;   // of a rate, a knee
constexpr double kLeast = 1e-3;  // of a rate

Result<void> in_range(std::string_view what, double value, double least, double most) {
  if (value >= least && value <= most) return {};  // not so a NaN
  return fail(Code::invalid_argument, fmt::format("{} is {}", what, value),
              fmt::format("{} to {}", least, most));
}
Result<void> check_transfer(std::string_view what, const TransferCosts& costs) {
  GANTRY_TRY(in_range(fmt::format("start of a {}", what), costs.start_ns, 0, 1e15));
  return in_range(fmt::format("rate of a {}", what), costs.bytes_per_s, kLeast, kMost);
}

constexpr std::string_view kMagic = "gantry-costs 1";
constexpr std::size_t kLongestText = std::size_t{64} << 20;
constexpr std::size_t kLongestWord = 256;

/// A line with one number.
struct Field {
  std::string_view key;
  double& (*of)(ScheduleCosts&);
  bool is_later = false;  // texts of before do not have it
};
constexpr std::array kFields = {
    Field{"product-start-ns", [](auto& c) -> double& { return c.product.start_ns; }},
    Field{"product-flops-per-s", [](auto& c) -> double& { return c.product.flops_per_s; }},
    Field{"product-m-knee", [](auto& c) -> double& { return c.product.m_knee; }},
    Field{"product-n-knee", [](auto& c) -> double& { return c.product.n_knee; }},
    Field{"product-k-knee", [](auto& c) -> double& { return c.product.k_knee; }},
    Field{"adding-bytes-per-s", [](auto& c) -> double& { return c.product.adding_bytes_per_s; }},
    Field{"copy-start-ns", [](auto& c) -> double& { return c.copy.start_ns; }},
    Field{"copy-bytes-per-s", [](auto& c) -> double& { return c.copy.bytes_per_s; }},
    Field{"reduce-start-ns", [](auto& c) -> double& { return c.reduce.start_ns; }},
    Field{"reduce-bytes-per-s", [](auto& c) -> double& { return c.reduce.bytes_per_s; }},
    Field{"link-start-ns", [](auto& c) -> double& { return c.link.start_ns; }},
    Field{"link-bytes-per-s", [](auto& c) -> double& { return c.link.bytes_per_s; }},
    Field{"port-bytes-per-s", [](auto& c) -> double& { return c.port_bytes_per_s; }},
    Field{"cpus", [](auto& c) -> double& { return c.cpus; }},
    Field{"cpu-s-per-byte", [](auto& c) -> double& { return c.cpu_s_per_byte; }},
    Field{"beside-transfers", [](auto& c) -> double& { return c.beside_transfers; }},
    Field{"cpu-s-per-transfer", [](auto& c) -> double& { return c.cpu_s_per_transfer; }, true},
    Field{"cpu-s-per-row", [](auto& c) -> double& { return c.cpu_s_per_row; }, true},
};

class CostsReader {
 public:
  Result<ScheduleCosts> read(std::string_view text) {
    GANTRY_TRY(read_lines(text, [this](std::string_view line, unsigned number) {
      return read_line(line, number == 1);
    }));
    if (seen_.empty())
      return fail(Code::invalid_argument, "no costs", fmt::format("they begin with '{}'", kMagic));
    for (const Field& field : kFields)
      if (!field.is_later && !seen_.contains(field.key))
        return fail(Code::invalid_argument, fmt::format("'{}' is missing", field.key));
    GANTRY_TRY(check_costs(costs_));
    return std::move(costs_);
  }

 private:
  Result<void> read_line(std::string_view line, bool is_first) {
    if (is_first) {
      if (line != kMagic) return tl::unexpected(wrong_first_line("costs", line, kMagic));
      seen_.insert(kMagic);
      return {};
    }
    GANTRY_TRY(check_line_end(line));
    if (std::ranges::any_of(line, [](char c) { return c < ' ' || c > '~'; }))
      return fail(Code::invalid_argument, "unexpected character: printable ASCII only");
    Words words(line.substr(0, line.find('#')));
    if (words.is_over()) return {};
    GANTRY_TRY(read_statement(words));
    return words.expect_end();
  }
  Result<void> read_statement(Words& words) {
    const std::string_view key = words.next();
    if (key == "link") return read_link(words);
    if (!seen_.insert(key).second)
      return fail(Code::invalid_argument, quote(key) + " is set already");
    if (words.is_over()) return fail(Code::invalid_argument, quote(key) + ": its value is missing");
    if (key == "name") {
      costs_.name = words.next();
      if (costs_.name.size() <= kLongestWord) return {};
      return fail(Code::invalid_argument,
                  fmt::format("name {}: at most {} characters", quote(costs_.name), kLongestWord));
    }
    if (key == "topology") return read_topology(words.next());
    for (const Field& field : kFields) {
      if (field.key != key) continue;
      GANTRY_ASSIGN(field.of(costs_), words.number<double>());
      return {};
    }
    return fail(Code::invalid_argument, "unknown key " + quote(key));
  }
  Result<void> read_topology(std::string_view word) {
    if (word != "mesh" && word != "switch")
      return fail(Code::invalid_argument, "unknown topology " + quote(word), "mesh or switch");
    costs_.topology = word == "mesh" ? Topology::mesh : Topology::switched;
    return {};
  }
  Result<void> read_link(Words& words) {
    LinkCosts link;
    GANTRY_ASSIGN(link.from, words.number<unsigned>());
    GANTRY_ASSIGN(link.to, words.number<unsigned>());
    GANTRY_ASSIGN(link.costs.start_ns, words.number<double>());
    GANTRY_ASSIGN(link.costs.bytes_per_s, words.number<double>());
    if (link.from >= kMostRanks || link.to >= kMostRanks)
      return fail(Code::invalid_argument, fmt::format("link {} {}: ranks must be below {}",
                                                      link.from, link.to, kMostRanks));
    if (!pairs_.emplace(link.from, link.to).second)
      return fail(Code::invalid_argument,
                  fmt::format("link {} {} is set already", link.from, link.to));
    costs_.links.push_back(link);
    return {};
  }

  ScheduleCosts costs_;
  std::set<std::string_view> seen_;
  std::set<std::pair<unsigned, unsigned>> pairs_;
};

// Products as measured: for given knees the model is linear in its start and its two rates, which
// least squares find; the knees are sought one after the other.
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

Result<void> check_costs(const ScheduleCosts& costs) {
  const ProductCosts& product = costs.product;
  GANTRY_TRY(in_range("start of a product", product.start_ns, 0, 1e15));
  GANTRY_TRY(in_range("rate of products", product.flops_per_s, kLeast, kMost));
  GANTRY_TRY(in_range("rate of adding", product.adding_bytes_per_s, kLeast, kMost));
  for (const double knee : {product.m_knee, product.n_knee, product.k_knee})
    GANTRY_TRY(in_range("a knee", knee, 0, 1e12));
  GANTRY_TRY(check_transfer("copy", costs.copy));
  GANTRY_TRY(check_transfer("reduction", costs.reduce));
  GANTRY_TRY(check_transfer("link", costs.link));
  for (const LinkCosts& link : costs.links) {
    if (link.from == link.to)
      return fail(Code::invalid_argument, fmt::format("a link from rank {} to itself", link.from));
    GANTRY_TRY(check_transfer("link", link.costs));
  }
  GANTRY_TRY(in_range("rate of a port", costs.port_bytes_per_s, kLeast, kMost));
  GANTRY_TRY(in_range("CPUs", costs.cpus, 0, 1e6));
  if (costs.cpus > 0) GANTRY_TRY(in_range("CPUs", costs.cpus, kLeast, 1e6));
  GANTRY_TRY(in_range("CPU time of a byte", costs.cpu_s_per_byte, 0, 1));
  GANTRY_TRY(in_range("CPU time of a transfer", costs.cpu_s_per_transfer, 0, 1000));
  GANTRY_TRY(in_range("CPU time of a row", costs.cpu_s_per_row, 0, 1000));
  return in_range("the slow-down of products", costs.beside_transfers, 1, 1000);
}

double seconds_of_product(const ProductCosts& costs, double m, double n, double k, bool adds,
                          Bytes bytes) noexcept {
  const double start = costs.start_ns / kNsPerS;
  if (m == 0 || n == 0 || k == 0) return start;
  const double knees = (1 + costs.m_knee / m) * (1 + costs.n_knee / n) * (1 + costs.k_knee / k);
  const double traffic = adds ? 2 * m * n * static_cast<double>(bytes) : 0;
  return start + 2 * m * n * k / costs.flops_per_s * knees + traffic / costs.adding_bytes_per_s;
}

// 48 GB/s, 7 links, 6 us a command, and 1.0 to 1.1 beside copy engines are published; 600 TFLOP/s
// is what the published workloads are set beside. The rest is assumed: half a tile of 256 is lost
// at each border, memory gives 4 TB/s, of which a sum takes three bytes for each and a copy two.
Result<ScheduleCosts> published_costs(std::string_view name) {
  return guarded([&]() -> Result<ScheduleCosts> {
    if (name != "published/mi300x-8")
      return fail(Code::not_found, "there are no costs " + quote(name),
                  "published/mi300x-8, or a file");
    ScheduleCosts costs;
    costs.name = name;
    costs.product = {4000, 600e12, 128, 128, 128, 4e12};
    costs.copy = {4000, 2e12};
    costs.reduce = {4000, 1.3e12};
    costs.link = {6000, 48e9};
    costs.port_bytes_per_s = 336e9;
    costs.beside_transfers = 1.05;
    return costs;
  });
}

ScheduleLosses losses_of(const Simulated& one, const Simulated& serial) {
  if (one.ranks.empty() || serial.ranks.empty()) return {};
  const RankTimes& rank = one.ranks[one.last_rank];
  return {rank.compute_alone_s - serial.ranks[serial.last_rank].compute_alone_s,
          rank.compute_s - rank.compute_alone_s, rank.exposed_s};
}

// ---- as text: docs/formats/costs.md -----------------------------------------------------------

Result<ScheduleCosts> parse_costs(std::string_view text) {
  return guarded([&]() -> Result<ScheduleCosts> {
    if (text.size() > kLongestText)
      return fail(Code::too_large, fmt::format("costs of {} bytes", text.size()));
    return CostsReader().read(text);
  });
}

std::string to_text(const ScheduleCosts& costs) {
  std::string text = fmt::format("{}\nname {}\ntopology {}\n", kMagic, costs.name,
                                 costs.topology == Topology::mesh ? "mesh" : "switch");
  ScheduleCosts copy = costs;
  for (const Field& field : kFields) text += fmt::format("{} {}\n", field.key, field.of(copy));
  for (const LinkCosts& link : costs.links)
    text += fmt::format("link {} {} {} {}\n", link.from, link.to, link.costs.start_ns,
                        link.costs.bytes_per_s);
  return text;
}

// ---- products as measured ---------------------------------------------------------------------

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
