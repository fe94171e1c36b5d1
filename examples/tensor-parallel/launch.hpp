#pragma once  // launch.hpp: ranks as processes of this machine, and signals as a descriptor.

#include "options.hpp"

namespace tensor_parallel {

/// Is rank `*options.rank`. Returns the exit status; errors are one line on standard error.
[[nodiscard]] int be_one_rank(const Options& options);

/// Starts all ranks and waits for them. SIGINT, SIGTERM and SIGHUP end them all; so does a rank
/// that ends badly, of which one line says what became of it. Returns the exit status.
[[nodiscard]] int start_all_ranks(const Options& options);

}  // namespace tensor_parallel
