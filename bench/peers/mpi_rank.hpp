#pragma once  // bench/peers/mpi_rank.hpp: a program that is one rank of an MPI job.

#include <functional>

#include "../support/process/link.hpp"

namespace gantry::bench {

struct MpiWorld {
  unsigned rank = 0;
  unsigned ranks = 1;
};
using Obey = std::function<Result<Answer>(const Command&)>;

/// main() of a rank. The first word is the benchmark's socket, where it says which rank it is and
/// is told what to do; the second one the network namespaces of all ranks, with commas between, or
/// nothing. Between commands it sleeps. `make`: once MPI is there. Returns the exit status.
[[nodiscard]] int serve_as_mpi_rank(const char* socket, const char* spaces,
                                    const std::function<Result<Obey>(const MpiWorld&)>& make);

}  // namespace gantry::bench
