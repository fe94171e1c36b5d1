#pragma once  // schedule/cost/work_graph.hpp: a plan's steps as work for resources, and who waits
              // for whom.

#include <gantry/schedule/cost.hpp>

namespace gantry {

inline constexpr unsigned kNoStep = ~0u;

enum class WorkKind : std::uint8_t { compute, transfer, word, barrier };

/// A step, as far as its time goes.
struct Work {
  WorkKind kind = WorkKind::compute;
  unsigned resource = 0;    ///< Of compute its rank; of a transfer ranks + its link.
  double alone_s = 0;       ///< Beside nothing; of a transfer on a shared port without its bytes.
  double bytes = 0;         ///< Of a transfer on a shared port, or with CPU time.
  double cpus_of_byte = 0;  ///< CPU time of one of them, at both ends.
  double most_bytes_per_s = 0;  ///< As many as the slower end's CPU lets pass.
};

/// A directed pair of ranks between which something moves.
struct LinkOfPlan {
  unsigned from = 0;
  unsigned to = 0;
  TransferCosts costs;
};

/// Steps, and edges to those that may begin behind them. The n-th barriers of all ranks wait for
/// each other by `barrier_turn`.
struct WorkGraph {
  /// Errors: `invalid_argument` for a step that waits for one which there is not, for ranks with
  /// different numbers of barriers.
  [[nodiscard]] static Result<WorkGraph> of(const Plan& plan, const ScheduleCosts& costs);

  [[nodiscard]] std::span<const unsigned> behind(unsigned step) const noexcept {
    return std::span(edges).subspan(first_edge[step], first_edge[step + 1] - first_edge[step]);
  }

  std::vector<Work> work;               // of each step
  std::vector<unsigned> missing;        // of each step: how many it waits for
  std::vector<std::size_t> first_edge;  // of each step, and the end
  std::vector<unsigned> edges;
  std::vector<LinkOfPlan> links;       // by from and to
  std::vector<unsigned> barrier_turn;  // of each step that is one: which of its rank's it is
  std::vector<std::vector<unsigned>> barriers;  // of each turn: one of each rank
  double barrier_s = 0;                         // from the last one's arrival to the end
  bool shares_transfers = false;                // ports or CPUs
};

}  // namespace gantry
