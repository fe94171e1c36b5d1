// Other systems, each end a program of its own. The asking end listens, the other one calls.

#include "../peers/external.hpp"
#include "placed.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

struct TcpPeer {
  const char* name;
  const char* program;
  const char* packages;  // what has to be installed for it to be built
  unsigned buffers;
};

constexpr TcpPeer kTcpPeers[] = {
    {"zeromq-tcp", "gantry-peer-zeromq", "libzmq3-dev", 3},
    {"nng-tcp", "gantry-peer-nng", "libnng-dev", 4},
};

Result<std::unique_ptr<Subject>> make_tcp_peer(const TcpPeer& peer, const Case& what,
                                               const Network& network) {
  const auto endpoint = network.free_endpoint(Host::asking);
  if (!endpoint) return Unexpected(endpoint.error());
  auto made = External::make(peer.program, "tcp://" + *endpoint, what);
  if (!made) return Unexpected(made.error());
  return std::move(*made);
}

}  // namespace

std::vector<SubjectKind> tcp_peers(const Network& network, std::vector<Skipped>& skipped) {
  std::vector<SubjectKind> kinds;
  for (const TcpPeer& peer : kTcpPeers) {
    if (auto lack = lack_of_peer(peer.program, peer.packages)) {
      skipped.push_back({peer.name, *std::move(lack)});
      continue;
    }
    SubjectKind kind{
        .name = peer.name,
        .make = [&peer, &network](const Case& what) { return make_tcp_peer(peer, what, network); },
        .buffers = peer.buffers,
        .is_peer = true,
        .most_in_flight = kLinkInFlight};
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
