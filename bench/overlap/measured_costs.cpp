#include "measured_costs.hpp"

#include <algorithm>

namespace gantry::bench {
namespace {

constexpr std::int64_t kSmallElements = 16;
constexpr std::int64_t kLargeElements = std::int64_t{1} << 18;
constexpr unsigned kSmallPuts = 50;
constexpr unsigned kLargePuts = 2;
constexpr unsigned kTimes = 3;
constexpr Bytes kElement = 4;
constexpr double kCopyBytesPerS = 4e9;  // of copies and sums within a rank; little of any plan

/// Pieces as schedules cut them: by rows, by depth, adding or not.
std::vector<ProductWork> samples_of(const OverlapOperator& op) {
  const bool is_split_by_depth = op.kind == OverlapKind::gemm_reduce_scatter;
  const auto part = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, side / static_cast<std::int64_t>(op.ranks));
  };
  const std::int64_t n = op.kind == OverlapKind::all_gather_gemm ? part(op.n) : op.n;
  const std::int64_t k = is_split_by_depth ? part(op.k) : op.k;
  const std::int64_t m = op.kind == OverlapKind::all_to_all_gemm ? part(op.m) : op.m;
  std::vector<ProductWork> samples;
  for (const std::int64_t cut : {1, 4, 8, 16, 32}) {
    samples.push_back({std::max<std::int64_t>(1, m / cut), n, k, false});
    samples.push_back({part(m), n, std::max<std::int64_t>(1, k / cut), true});
  }
  return samples;
}

double least_seconds(const std::vector<WorkTimes>& times) {
  double least = times.front().seconds;
  for (const WorkTimes& one : times) least = std::min(least, one.seconds);
  return least;
}

}  // namespace

std::size_t add_cost_work(const OverlapOperator& op, std::vector<Work>& work) {
  const std::size_t first = work.size();
  work.push_back(PlanWork{round_of_puts(op.ranks, kSmallElements, kSmallPuts)});
  work.push_back(PlanWork{round_of_puts(op.ranks, kLargeElements, kLargePuts)});
  for (const ProductWork& sample : samples_of(op)) work.push_back(sample);
  return first;
}

Result<ScheduleCosts> measure_product_costs(const OverlapOperator& op, Ranks& ranks,
                                            std::span<const Work> work, std::size_t first) {
  std::vector<ProductSample> samples;
  const std::size_t count = samples_of(op).size();
  for (std::size_t i = first + 2; i < first + 2 + count; ++i) {
    const auto times = ranks.run(i, kTimes);
    if (!times) return Unexpected(times.error());
    const auto& what = std::get<ProductWork>(work[i]);
    samples.push_back({what.m, what.n, what.k, what.adds, least_seconds(*times)});
  }
  const auto fit = fit_products(samples, kElement);
  if (!fit) return Unexpected(fit.error());
  ScheduleCosts costs;
  costs.name = "measured";
  costs.product = fit->costs;
  costs.copy = costs.reduce = {0, kCopyBytesPerS};
  return costs;
}

Result<void> measure_link_costs(Ranks& ranks, std::size_t first, double rate,
                                ScheduleCosts& costs) {
  const auto small = ranks.run(first, kTimes);
  if (!small) return Unexpected(small.error());
  const auto large = ranks.run(first + 1, kTimes);
  if (!large) return Unexpected(large.error());
  const double bytes = static_cast<double>(kLargeElements) * kElement * kLargePuts;
  costs.link.start_ns = least_seconds(*small) / kSmallPuts * 1e9;
  // What the wire's own headers take is in it.
  costs.link.bytes_per_s = std::min(rate, bytes / least_seconds(*large));
  costs.port_bytes_per_s = costs.link.bytes_per_s;
  const double ends = 2.0 * static_cast<double>(ranks.size());
  costs.cpu_s_per_byte = large->front().cpu_seconds / (bytes * ends);
  return {};
}

}  // namespace gantry::bench
