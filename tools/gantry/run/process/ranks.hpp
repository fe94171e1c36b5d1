#pragma once  // tools/gantry/run/process/ranks.hpp: the ranks of a job of mpirun or srun.

#include <gantry/types.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gantry::run {

/// Which rank of a job this process is, as its launcher says by PMIx; nothing if it is none.
[[nodiscard]] std::optional<unsigned> own_rank();

/// Gives every rank the texts of all, by rank. Each rank of the job calls it once, and waits there
/// for all others; then it is none any more, nor is what it starts. `told` is not empty. Errors:
/// `unsupported` without PMIx, `system`.
[[nodiscard]] Result<std::vector<std::string>> exchange_among_ranks(const std::string& told);

}  // namespace gantry::run
