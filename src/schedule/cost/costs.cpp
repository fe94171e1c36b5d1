#include "schedule/cost/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/result.hpp"
#include "schedule/quote.hpp"

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

}  // namespace gantry
