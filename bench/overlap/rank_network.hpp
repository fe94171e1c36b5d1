#pragma once  // bench/overlap/rank_network.hpp: hosts of a group's ranks, and rated links between.

#include <gantry/plan.hpp>
#include <string>
#include <vector>

#include "../support/system/net_space.hpp"

namespace gantry::bench {

/// A network namespace for each rank. In a mesh a veth pair joins each two of them; with a switch
/// one joins each to a bridge.
class RankNetwork {
 public:
  /// Errors: `permission_denied` without the right to make namespaces; those of `ip`.
  [[nodiscard]] static Result<RankNetwork> make(unsigned ranks, Topology topology);

  /// Takes the calling thread, and whom it starts later, to that rank's host for good.
  [[nodiscard]] Result<void> enter(unsigned rank) const;
  /// By which other programs find that rank's host while this lives.
  [[nodiscard]] std::string path_of(unsigned rank) const { return path_of_space(hosts_[rank]); }
  /// That of a rank that has its address.
  [[nodiscard]] std::string device() const;
  /// "10.77.0.1:4800", the same from everywhere.
  [[nodiscard]] std::string endpoint(unsigned rank) const;
  /// Each link, or port, carries no more in either direction. Errors: those of `tc`.
  [[nodiscard]] Result<void> limit(double bytes_per_second) const;
  /// Bytes that all ranks' interfaces have sent since they were made.
  [[nodiscard]] Result<std::uint64_t> sent_bytes() const;

 private:
  RankNetwork() = default;
  [[nodiscard]] Result<void> run_in(const Descriptor& space,
                                    const std::vector<std::vector<std::string>>& commands) const;
  [[nodiscard]] Result<void> join_mesh() const;
  [[nodiscard]] Result<void> join_switch() const;
  [[nodiscard]] std::vector<std::string> interfaces_of(unsigned rank) const;

  Descriptor home_;
  std::vector<Descriptor> hosts_;  // by rank; of a switch, it is the last one
  unsigned ranks_ = 0;
  Topology topology_ = Topology::mesh;
};

}  // namespace gantry::bench
