#include "rank_network.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <fstream>

#include "../support/system/command.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kPort = 4800;
// Little beside a message, and more than the largest packet that the kernel hands on in one piece:
// it would cut that into those of the wire, and who computes would pay for them.
constexpr const char* kBurst = "80kb";
// In a mesh it has a rank's address. Without ports nothing goes through it; Open MPI takes no
// address of `lo`, and does not end if several devices have the same one.
constexpr const char* kOwnDevice = "me";
constexpr const char* kQueueing = "50ms";  // longer waits are drops

using Commands = std::vector<std::vector<std::string>>;

std::string address_of(unsigned rank) {
  return fmt::format("10.77.0.{}", rank + 1);
}

std::string link_to(unsigned rank) {
  return fmt::format("r{}", rank);
}

std::vector<std::string> veth(const std::string& here, const std::string& there,
                              const Descriptor& space) {
  return {"ip",
          "link",
          "add",
          here,
          "type",
          "veth",
          "peer",
          "name",
          there,
          "netns",
          path_of_space(space)};
}

}  // namespace

Result<RankNetwork> RankNetwork::make(unsigned ranks, Topology topology) {
  RankNetwork network;
  network.ranks_ = ranks;
  network.topology_ = topology;
  network.home_ = present_space();
  if (!network.home_.is_open()) return Unexpected(system_error("/proc/thread-self/ns/net"));
  for (unsigned host = 0; host < ranks + (topology == Topology::switched ? 1 : 0); ++host) {
    auto made = make_space(network.home_);
    if (!made) return Unexpected(made.error());
    network.hosts_.push_back(std::move(*made));
  }
  const auto joined = topology == Topology::mesh ? network.join_mesh() : network.join_switch();
  if (!joined) return Unexpected(joined.error());
  return network;
}

Result<void> RankNetwork::run_in(const Descriptor& space, const Commands& commands) const {
  const auto visit = Visit::begin(home_, space);
  if (!visit) return Unexpected(visit.error());
  for (const auto& words : commands)
    if (auto done = run_command(words); !done) return done;
  return {};
}

Result<void> RankNetwork::join_mesh() const {
  for (unsigned one = 0; one < ranks_; ++one)
    for (unsigned other = one + 1; other < ranks_; ++other)
      if (auto made = run_in(hosts_[one], {veth(link_to(other), link_to(one), hosts_[other])});
          !made)
        return made;
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    Commands commands = {{"ip", "link", "set", "lo", "up"},
                         {"ip", "link", "add", kOwnDevice, "type", "bridge"},
                         {"ip", "address", "add", address_of(rank) + "/32", "dev", kOwnDevice},
                         {"ip", "link", "set", kOwnDevice, "up"}};
    for (unsigned peer = 0; peer < ranks_; ++peer) {
      if (peer == rank) continue;
      commands.push_back({"ip", "link", "set", link_to(peer), "up"});
      commands.push_back({"ip", "route", "add", address_of(peer) + "/32", "dev", link_to(peer),
                          "src", address_of(rank)});
    }
    if (auto made = run_in(hosts_[rank], commands); !made) return made;
  }
  return {};
}

Result<void> RankNetwork::join_switch() const {
  const Descriptor& bridge = hosts_[ranks_];
  if (auto made = run_in(bridge, {{"ip", "link", "add", "sw", "type", "bridge"},
                                  {"ip", "link", "set", "sw", "up"}});
      !made)
    return made;
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    const std::string port = link_to(rank);
    auto made = run_in(bridge, {veth(port, "sw", hosts_[rank]),
                                {"ip", "link", "set", port, "master", "sw"},
                                {"ip", "link", "set", port, "up"}});
    if (made)
      made = run_in(hosts_[rank], {{"ip", "link", "set", "lo", "up"},
                                   {"ip", "address", "add", address_of(rank) + "/24", "dev", "sw"},
                                   {"ip", "link", "set", "sw", "up"}});
    if (!made) return made;
  }
  return {};
}

Result<void> RankNetwork::enter(unsigned rank) const {
  if (::setns(hosts_[rank].get(), CLONE_NEWNET) != 0) return Unexpected(system_error("setns"));
  return {};
}

std::string RankNetwork::device() const {
  return topology_ == Topology::switched ? "sw" : kOwnDevice;
}

std::string RankNetwork::endpoint(unsigned rank) const {
  return fmt::format("{}:{}", address_of(rank), kPort);
}

std::vector<std::string> RankNetwork::interfaces_of(unsigned rank) const {
  if (topology_ == Topology::switched) return {"sw"};
  std::vector<std::string> names;
  for (unsigned peer = 0; peer < ranks_; ++peer)
    if (peer != rank) names.push_back(link_to(peer));
  return names;
}

Result<void> RankNetwork::limit(double bytes_per_second) const {
  const auto rate = fmt::format("{:.0f}bit", bytes_per_second * 8);
  const auto limited = [&](const std::string& interface) {
    return std::vector<std::string>{"tc",   "qdisc", "replace", "dev",  interface, "root",   "tbf",
                                    "rate", rate,    "burst",   kBurst, "latency", kQueueing};
  };
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    Commands commands;
    for (const std::string& name : interfaces_of(rank)) commands.push_back(limited(name));
    if (auto done = run_in(hosts_[rank], commands); !done) return done;
    if (topology_ == Topology::switched)
      if (auto done = run_in(hosts_[ranks_], {limited(link_to(rank))}); !done) return done;
  }
  return {};
}

Result<std::uint64_t> RankNetwork::sent_bytes() const {
  constexpr int kWordsBeforeSent = 7;  // received packets and their troubles
  std::uint64_t sum = 0;
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    const auto visit = Visit::begin(home_, hosts_[rank]);
    if (!visit) return Unexpected(visit.error());
    std::ifstream lines("/proc/thread-self/net/dev");
    for (std::string word; lines >> word;) {
      if (!word.ends_with(':') || word == "lo:") continue;
      std::uint64_t bytes = 0;
      lines >> bytes;
      for (int i = 0; i < kWordsBeforeSent; ++i) lines >> bytes;
      lines >> bytes;
      sum += bytes;
    }
  }
  return Result<std::uint64_t>(tl::in_place, sum);
}

}  // namespace gantry::bench
