#pragma once  // bench/peers/mpirun.hpp: a subject whose ends are ranks of one MPI job.

#include "external.hpp"

namespace gantry::bench {

/// Ranks that mpirun starts, rank 0 the requester. Its `settings` are pairs for --mca. `wrapper`:
/// words before the requester's own.
[[nodiscard]] Result<std::unique_ptr<Subject>> make_mpi(const Case& what,
                                                        const std::vector<std::string>& settings,
                                                        const std::vector<std::string>& wrapper);

}  // namespace gantry::bench
