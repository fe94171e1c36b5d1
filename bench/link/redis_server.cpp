#include "redis_server.hpp"

#include <fmt/format.h>

namespace gantry::bench {

Result<ProgramGuard> start_redis(const Network& network, Host host, const std::string& directory,
                                 const RedisPlaces& places) {
  const auto colon = places.endpoint.rfind(':');
  const std::string log = places.path + ".log";
  std::vector<std::string> words = network.words_at(host);
  words.insert(words.end(), {"redis-server",
                             "--bind",
                             places.endpoint.substr(0, colon),
                             "--port",
                             places.endpoint.substr(colon + 1),
                             "--unixsocket",
                             places.path,
                             "--dir",
                             directory,
                             "--save",
                             "",
                             "--appendonly",
                             "no",
                             "--protected-mode",
                             "no",
                             "--user",
                             "default",
                             "on",
                             "nopass",
                             "~*",
                             "resetchannels",
                             "-@all",
                             "+get",
                             "+set",
                             "+rpush",
                             "+blpop"});
  auto guard = ProgramGuard::start({.words = std::move(words), .log = log});
  if (!guard) return guard;
  if (auto ready = await_saying(*guard, log, "Ready to accept connections"); !ready)
    return Unexpected({Code::system, "redis-server: " + ready.error().message, ""});
  return guard;
}

}  // namespace gantry::bench
