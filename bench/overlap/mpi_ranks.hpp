#pragma once  // bench/overlap/mpi_ranks.hpp: ranks of one Open MPI job, told what to do like ours.

#include <optional>
#include <string_view>

#include "../support/process/link.hpp"
#include "../support/process/program_guard.hpp"
#include "rank_network.hpp"

namespace gantry::bench {

inline constexpr std::string_view kOpenMpi = "openmpi";
inline constexpr const char* kMpiCollectives = "gantry-peer-openmpi_collectives";
inline constexpr const char* kMpiOverlap = "gantry-peer-openmpi_overlap";

struct MpiJob {
  const char* program = nullptr;
  unsigned ranks = 0;
  /// What is told to TCP of its interfaces, as a pair for --mca. Empty, and no network: shared
  /// memory.
  std::vector<std::string> interfaces{};
  const RankNetwork* network = nullptr;  ///< Each rank is in its host.
  std::vector<std::string> words{};      ///< For the program.
};

/// Ends with this. Its ranks sleep between commands.
class MpiRanks {
 public:
  /// `directory`: for its socket and files. Errors: `unsupported` (not built), `system`, with what
  /// mpirun said last; `timed_out`.
  [[nodiscard]] static Result<MpiRanks> start(const MpiJob& job, const std::string& directory);
  [[nodiscard]] std::vector<Link>& links() noexcept { return links_; }

 private:
  explicit MpiRanks(ProgramGuard guard) : guard_(std::move(guard)) {}
  ProgramGuard guard_;
  std::vector<Link> links_;  // by rank
};

}  // namespace gantry::bench
