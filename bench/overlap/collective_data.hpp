#pragma once  // bench/overlap/collective_data.hpp: what ranks have before a collective, and after.

#include <gantry/collectives.hpp>
#include <span>

#include "../support/process/link.hpp"

namespace gantry::bench {

/// A rank's part in one collective on floats. Sizes are divisible by the ranks.
struct RankView {
  CollectiveKind kind = CollectiveKind::all_reduce;
  unsigned rank = 0;
  unsigned ranks = 1;
  std::size_t size = 0;  ///< Of the tensor, and of the result of an all-to-all.

  [[nodiscard]] std::size_t piece() const noexcept { return size / ranks; }
};

/// Whole numbers, so that sums are exact; others in each trip.
void fill_tensor(const RankView& view, std::uint64_t trip, std::span<float> tensor);

/// Every element that the collective makes, compared. `tensor`: of all_to_all its result; of
/// reduce_scatter this rank's piece of it. Errors: `system` with the first that differs.
[[nodiscard]] Result<void> compare_tensor(const RankView& view, std::uint64_t trip,
                                          std::span<const float> tensor);

/// A command to a rank of any subject: which collective, of how many bytes, how often.
[[nodiscard]] Command command_of(CollectiveKind kind, Bytes bytes, std::uint64_t trips,
                                 std::uint64_t way = 0);
struct Commanded {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes = 0;
  std::uint64_t way = 0;  ///< Of those that a subject has for it.
};
[[nodiscard]] Commanded commanded(const Command& command) noexcept;

/// One trip: a barrier, then the collective, whose time in ns it gives, then a barrier again:
/// nobody compares, and takes a CPU, while another one is at it.
using Trip = std::function<Result<double>()>;
/// Trips of which the first one does not count, each on new data, each compared.
struct Trips {
  RankView view;
  std::span<float> tensor;        ///< Filled before each.
  std::span<const float> result;  ///< As compare_tensor() takes it.
  Trip trip;
};
[[nodiscard]] Result<Answer> make_trips(const Trips& trips, std::uint64_t count);

}  // namespace gantry::bench
