#pragma once  // engine/thread/thread_engine.hpp: workers execute moves while the submitter goes on.

#include <gantry/engine.hpp>
#include <vector>

namespace gantry {

/// Where one worker lives.
struct WorkerPlace {
  int node = 0;           ///< Its NUMA node, by the kernel's number: it does moves to memory there.
  std::vector<int> cpus;  ///< The only CPUs it runs on; empty: any.
};

inline constexpr std::size_t kMaxWorkers = 64;

struct ThreadOptions {
  std::vector<WorkerPlace> workers = {WorkerPlace{}};  ///< 1 to kMaxWorkers, started at once.
  Bytes streaming_from = 0;  ///< CacheUse::automatic streams from this size on. 0: never.
  /// Rate of worker and waiter together over that of the worker alone. It decides whether a waiter
  /// helps with what a worker does already.
  double helping_gain = 2;
};

/// Errors: `invalid_argument` (no worker, or more than kMaxWorkers), `system` (a thread or the
/// fault guard is refused).
[[nodiscard]] Result<std::shared_ptr<Engine>> make_thread_engine(const ThreadOptions& options);

}  // namespace gantry
