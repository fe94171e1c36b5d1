#pragma once  // bench/overlap/collective_ranks.hpp: our processes that run collectives together.

#include <optional>

#include "../support/process/child.hpp"
#include "collective_data.hpp"
#include "rank_network.hpp"

namespace gantry::bench {

/// How the ranks reach each other.
enum class RankPath : std::uint8_t {
  shared,    ///< By name: shared links.
  loopback,  ///< By addresses of this host: stream links.
  veth,      ///< By addresses of namespaces with a veth pair for each two: stream links.
};
[[nodiscard]] std::string_view name_of(RankPath path) noexcept;

/// A way to do a collective: what Collective is told to take.
struct CollectiveWay {
  std::string program{};  ///< Empty: what is picked.
  std::string variant{};
};
/// What is picked comes first, then each program of the kind in each variant.
[[nodiscard]] Result<std::vector<CollectiveWay>> ways_of(CollectiveKind kind);

/// One process a rank.
class CollectiveRanks {
 public:
  /// `directory`: for names. `network`: of `veth`. Errors: those of forking, and of a group that
  /// does not form.
  [[nodiscard]] static Result<CollectiveRanks> start(unsigned ranks, RankPath path,
                                                     const std::string& directory,
                                                     const RankNetwork* network);
  /// Command::way: of ways_of().
  [[nodiscard]] std::vector<Child>& children() noexcept { return children_; }

 private:
  std::vector<Child> children_;
};

}  // namespace gantry::bench
