// Other systems, each end a program of its own. The asking end listens, the other one calls, unless
// the system has its own way of finding one another.

#include "../peers/external.hpp"
#include "../peers/mpirun.hpp"
#include "placed.hpp"
#include "redis_server.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

using Made = Result<std::unique_ptr<Subject>>;

struct TcpPeer {
  const char* name;
  const char* program;
  const char* packages;  // what has to be installed for it to be built
  Made (*make)(const TcpPeer& peer, const Case& what, const Network& network);
  unsigned buffers = 3;
  Bytes most_bytes = ~Bytes{0};
};

Made make_external(const TcpPeer& peer, std::string variant, const Case& what) {
  auto made = External::make(peer.program, std::move(variant), what);
  if (!made) return Unexpected(made.error());
  return std::move(*made);
}

Made make_at_url(const TcpPeer& peer, const Case& what, const Network& network) {
  const auto endpoint = network.free_endpoint(Host::asking);
  if (!endpoint) return Unexpected(endpoint.error());
  return make_external(peer, "tcp://" + *endpoint, what);
}

Made make_at_endpoint(const TcpPeer& peer, const Case& what, const Network& network) {
  const auto endpoint = network.free_endpoint(Host::asking);
  if (!endpoint) return Unexpected(endpoint.error());
  return make_external(peer, *endpoint, what);
}

/// They tell one another their addresses over the socket that the benchmark gives them.
Made make_ucx(const TcpPeer& peer, const Case& what, const Network& network) {
  return make_external(peer, network.interface(), what);
}

Made make_openmpi(const TcpPeer&, const Case& what, const Network& network) {
  MpiLaunch launch{
      .settings = {"pml", "ob1", "btl", "tcp,self", "btl_tcp_if_include", network.interface()}};
  if (!network.is_loopback())
    launch.hosts = {network.address(Host::asking), network.address(Host::answering),
                    network.words_at(Host::asking), network.words_at(Host::answering)};
  return make_mpi(what, launch);
}

/// "get" or "set" crosses the wire: the server is on the host where the other one is made.
Made make_redis(const TcpPeer& peer, const Case& what, const Network& network, const char* way) {
  const Host host = std::string_view(way) == "get" ? Host::asking : Host::answering;
  const auto endpoint = network.free_endpoint(host);
  if (!endpoint) return Unexpected(endpoint.error());
  const RedisPlaces places{*endpoint, what.directory + "/redis-" + way};
  auto server = start_redis(network, host, what.directory, places);
  if (!server) return Unexpected(server.error());
  auto made = External::make(peer.program, way + (" " + places.endpoint) + " " + places.path, what);
  if (!made) return Unexpected(made.error());
  const int process = server->program();
  (*made)->accompany(std::make_shared<ProgramGuard>(std::move(*server)), process);
  return std::move(*made);
}

Made make_redis_get(const TcpPeer& peer, const Case& what, const Network& network) {
  return make_redis(peer, what, network, "get");
}
Made make_redis_set(const TcpPeer& peer, const Case& what, const Network& network) {
  return make_redis(peer, what, network, "set");
}

constexpr const char* kRedisPackages = "redis-server libhiredis-dev";
constexpr Bytes kMostOfRedis = Bytes{512} << 20;  // a string of its protocol

constexpr TcpPeer kTcpPeers[] = {
    {kZeromqTcpName, "gantry-peer-zeromq", "libzmq3-dev", make_at_url},
    {kNngTcpName, "gantry-peer-nng", "libnng-dev", make_at_url, 4},
    {"openmpi-tcp", "gantry-peer-openmpi", "openmpi-bin libopenmpi-dev", make_openmpi},
    {"ucx-tcp", "gantry-peer-ucx", "libucx-dev", make_ucx},
    {"libfabric-tcp", "gantry-peer-libfabric", "libfabric-dev", make_at_endpoint},
    {"redis/get", "gantry-peer-redis", kRedisPackages, make_redis_get, 7, kMostOfRedis},
    {"redis/set", "gantry-peer-redis", kRedisPackages, make_redis_set, 7, kMostOfRedis},
};

}  // namespace

std::vector<SubjectKind> tcp_peers(const Network& network, Report& report,
                                   const std::function<bool(std::string_view)>& wants) {
  std::vector<SubjectKind> kinds;
  for (const TcpPeer& peer : kTcpPeers) {
    if (!wants(peer.name)) continue;
    if (!admit_peer(report, peer.name, peer.program, peer.packages)) continue;
    SubjectKind kind{
        .name = peer.name,
        .make = [&peer, &network](const Case& what) { return peer.make(peer, what, network); },
        .buffers = peer.buffers,
        .is_peer = true,
        .most_in_flight = kLinkInFlight,
        .most_bytes = peer.most_bytes};
    kinds.push_back(placed(std::move(kind), network));
  }
  return kinds;
}

std::vector<std::string> tcp_peer_names() {
  std::vector<std::string> names;
  for (const TcpPeer& peer : kTcpPeers) names.emplace_back(peer.name);
  return names;
}

}  // namespace gantry::bench
