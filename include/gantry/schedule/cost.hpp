#pragma once  // gantry/schedule/cost.hpp: what a plan costs, and how long it takes in virtual time.

#include <gantry/schedule/plan.hpp>
#include <span>
#include <string>
#include <vector>

namespace gantry {

/// A product of m x k and k x n takes
///   start_ns + 2 m n k / flops_per_s * (1 + m_knee / m) (1 + n_knee / n) (1 + k_knee / k),
/// and 2 m n elements of memory traffic more, by adding_bytes_per_s, if it adds to what is there.
struct ProductCosts {
  double start_ns = 0;               ///< What each takes, however small; 0 to 1e15.
  double flops_per_s = 1e12;         ///< The rate without knees.
  double m_knee = 0;                 ///< Rows at which half of the speed is lost.
  double n_knee = 0;                 ///< The same for columns.
  double k_knee = 0;                 ///< The same for the depth.
  double adding_bytes_per_s = 1e11;  ///< The rate of that traffic.
  friend bool operator==(const ProductCosts&, const ProductCosts&) = default;
};

/// start + bytes / rate.
struct TransferCosts {
  double start_ns = 0;        ///< What each takes, however small; 0 to 1e15.
  double bytes_per_s = 1e10;  ///< The rate of its payload.
  friend bool operator==(const TransferCosts&, const TransferCosts&) = default;
};

/// A directed pair of ranks that differs from the others.
struct LinkCosts {
  unsigned from = 0;    ///< The rank whose memory is read.
  unsigned to = 0;      ///< The rank whose memory is written; not `from`.
  TransferCosts costs;  ///< Of what goes that way.
  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

/// What the ranks' transfers share.
enum class Topology : std::uint8_t {
  mesh,      ///< Each directed pair of ranks has a link of its own.
  switched,  ///< Each rank has a port out and a port in, which its transfers share evenly.
};

/// What a group of ranks costs: docs/formats/costs.md.
struct ScheduleCosts {
  std::string name = "unnamed";        ///< Where it comes from; one word.
  ProductCosts product;                ///< Of gemm.
  TransferCosts copy{0, 1e11};         ///< Within a rank, of copy and fill; bytes of the result.
  TransferCosts reduce{0, 1e11};       ///< The same.
  Topology topology = Topology::mesh;  ///< It says which of the next fields count.
  TransferCosts link;                  ///< Of each directed pair.
  std::vector<LinkCosts> links{};      ///< Those that differ.
  double port_bytes_per_s = 1e10;      ///< Of a switch: of each port and direction.
  double cpus = 0;                     ///< All ranks share as many; 0: each has what it needs.
  /// CPU time of a transfer at each end, by its payload: where CPUs are shared it takes them from
  /// what computes. No transfer takes less time than either end's CPU.
  double cpu_s_per_byte = 0;
  double cpu_s_per_transfer = 0;  ///< The same, however small the transfer is.
  double cpu_s_per_row = 0;       ///< Of an end where its rows do not lie side by side.
  double beside_transfers = 1;    ///< Products take so many times as long beside transfers.
  friend bool operator==(const ScheduleCosts&, const ScheduleCosts&) = default;
};

/// Reads costs. Errors: `invalid_argument`: "line 7: what: why".
[[nodiscard]] GANTRY_API Result<ScheduleCosts> parse_costs(std::string_view text);
/// The same costs as text; parse_costs() reads it back, to the bit.
[[nodiscard]] GANTRY_API std::string to_text(const ScheduleCosts& costs);
/// Costs from publications; "published/mi300x-8". Errors: `not_found`.
[[nodiscard]] GANTRY_API Result<ScheduleCosts> published_costs(std::string_view name);

/// What one product of m x k by k x n took.
struct ProductSample {
  std::int64_t m = 0, n = 0, k = 0;  ///< Of m x k by k x n.
  bool adds = false;                 ///< It was added to what was there.
  double seconds = 0;                ///< The time.
};
/// The costs that come nearest to some samples.
struct ProductFit {
  ProductCosts costs;  ///< For ScheduleCosts::product.
  double error = 0;    ///< Root of the mean square of the relative error.
};
/// Costs that come nearest to what was measured, in relative error; `bytes`: of an element. Errors:
/// `invalid_argument` for fewer than four samples, or one without size or time.
[[nodiscard]] GANTRY_API Result<ProductFit> fit_products(std::span<const ProductSample> samples,
                                                         Bytes bytes);
/// What such a product takes by these costs.
[[nodiscard]] GANTRY_API double seconds_of_product(const ProductCosts& costs, double m, double n,
                                                   double k, bool adds, Bytes bytes) noexcept;

/// When a step of a simulated plan runs, from the plan's start on.
struct StepTimes {
  double begin_s = 0;  ///< When it takes up what it uses.
  double end_s = 0;    ///< When it is over.
};
/// What a rank of a simulated plan does with its time.
struct RankTimes {
  double compute_s = 0;        ///< While it computes.
  double compute_alone_s = 0;  ///< What the same steps take beside nothing.
  double links_s = 0;          ///< While bytes come or go.
  double end_s = 0;            ///< When its last step ends.
  double exposed_s = 0;        ///< While it computes nothing, until the plan ends.
};
/// What a plan takes in virtual time.
struct Simulated {
  double seconds = 0;            ///< When the last step ends.
  std::vector<RankTimes> ranks;  ///< By rank.
  std::vector<StepTimes> steps;  ///< While they occupy what they use.
  unsigned last_rank = 0;        ///< The one that ends last; of several the one that computes most.
};

/// Runs a plan in virtual time. A rank computes (gemm, reduce, copy, fill) one step after another,
/// in the order in which they may begin, and so do the transfers of each directed pair of ranks;
/// lanes, `after` and barriers hold as they do when it is executed. The same plan and costs give
/// the same numbers everywhere. Errors: `invalid_argument` for a plan whose shape does not hold, or
/// whose steps wait for each other; costs that make no sense.
[[nodiscard]] GANTRY_API Result<Simulated> simulate(const Plan& plan, const ScheduleCosts& costs);

/// Where the time of a schedule goes, beside what the serial one computes. They add up:
/// seconds = serial's compute_alone_s + decomposition_s + contention_s + exposed_s.
struct ScheduleLosses {
  double decomposition_s = 0;  ///< Pieces, copies and sums take longer than one product.
  double contention_s = 0;     ///< Steps take longer beside others than alone.
  double exposed_s = 0;        ///< Start-up, tail, and waiting in between.
};
/// Of two simulations by the same costs.
[[nodiscard]] GANTRY_API ScheduleLosses losses_of(const Simulated& one, const Simulated& serial);

}  // namespace gantry
