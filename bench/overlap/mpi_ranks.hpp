#pragma once  // bench/overlap/mpi_ranks.hpp: ranks of one Open MPI job, told what to do like ours.

#include <optional>

#include "../support/process/link.hpp"
#include "../support/process/program_guard.hpp"

namespace gantry::bench {

inline constexpr const char* kMpiProgram = "gantry-peer-openmpi_collectives";

/// Ends with this. Its ranks sleep between commands.
class MpiRanks {
 public:
  /// `settings`: pairs for --mca. `directory`: for its socket and files. Errors: `system`, with
  /// what mpirun said last; `timed_out`.
  [[nodiscard]] static Result<MpiRanks> start(unsigned ranks,
                                              const std::vector<std::string>& settings,
                                              const std::string& directory);
  [[nodiscard]] std::vector<Link>& links() noexcept { return links_; }

 private:
  explicit MpiRanks(ProgramGuard guard) : guard_(std::move(guard)) {}
  ProgramGuard guard_;
  std::vector<Link> links_;  // by rank
};

}  // namespace gantry::bench
