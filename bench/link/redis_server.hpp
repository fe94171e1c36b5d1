#pragma once  // bench/link/redis_server.hpp: a Redis of one host, for as long as somebody needs it.

#include "../support/process/program_guard.hpp"
#include "network.hpp"

namespace gantry::bench {

/// Where a server listens.
struct RedisPlaces {
  std::string endpoint;  ///< "192.0.2.1:40000", for the other host.
  std::string path;      ///< Unix socket, for its own host.
};

/// Starts `redis-server` on that host and waits until it takes clients. It keeps nothing on disk
/// and knows the few commands that the peer's program uses. Its files go to `directory`.
[[nodiscard]] Result<ProgramGuard> start_redis(const Network& network, Host host,
                                               const std::string& directory,
                                               const RedisPlaces& places);

}  // namespace gantry::bench
