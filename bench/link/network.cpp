#include "network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "../support/system/command.hpp"
#include "../support/system/net_space.hpp"
#include "../support/system/numbers.hpp"

namespace gantry::bench {
namespace {

constexpr std::array kHosts = {Host::asking, Host::answering};
constexpr std::array kAddresses = {"192.0.2.1", "192.0.2.2"};  // RFC 5737: in no real network
constexpr const char* kInterface = "gantry0";                  // on either host
constexpr const char* kLoopback = "127.0.0.1";
// More than the largest packet that the kernel hands on in one piece, and little beside a message.
constexpr const char* kBurst = "256kb";
constexpr const char* kQueueing = "50ms";  // longer waits are drops

sockaddr_in address_of(const char* host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

/// Bound to a port that the kernel chooses, which `address` gets.
Result<Descriptor> bound_socket(sockaddr_in& address) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t size = sizeof address;
  auto* const words = reinterpret_cast<sockaddr*>(&address);
  if (!socket.is_open() || ::bind(socket.get(), words, size) != 0 ||
      ::getsockname(socket.get(), words, &size) != 0)
    return Unexpected(system_error("a TCP socket"));
  return socket;
}

/// A /sys lists the interfaces of the namespace that it was mounted in. UCX looks there; where this
/// is not allowed, it alone is lost.
void show_interfaces() {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0)
    return;
  static_cast<void>(::mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr));
}

/// Until the interface of the namespace that this thread is in says that it runs: the kernel takes
/// its time to say so, and UCX takes no other.
Result<void> await_running() {
  constexpr int kTries = 5000;
  constexpr timespec kTry{0, 1'000'000};
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (int i = 0; i < kTries; ++i) {
    ifreq asked{};
    std::strcpy(asked.ifr_name, kInterface);
    if (::ioctl(socket.get(), SIOCGIFFLAGS, &asked) != 0)
      return Unexpected(system_error(kInterface));
    if ((asked.ifr_flags & IFF_RUNNING) != 0) return {};
    ::nanosleep(&kTry, nullptr);
  }
  return Unexpected({Code::system, fmt::format("interface '{}' does not run", kInterface), ""});
}

void send_at_once(const Descriptor& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Result<Rate> parse_rate(const std::string& text) {
  if (text == "unlimited") return Rate{text};
  const bool is_giga = text.ends_with('G');
  const auto number =
      text.empty() ? std::nullopt : number_of<std::uint32_t>(text.substr(0, text.size() - 1));
  if (number && *number > 0 && (is_giga || text.ends_with('M')))
    return Rate{text, *number * (is_giga ? 1'000'000'000ull : 1'000'000ull)};
  return Unexpected({Code::invalid_argument, fmt::format("'{}' is no rate", text),
                     "unlimited, or bits a second: 10G, 500M"});
}

Result<Network> Network::make_namespaces() {
  Network network;
  network.home_ = present_space();
  if (!network.home_.is_open()) return Unexpected(system_error("/proc/thread-self/ns/net"));
  for (Descriptor& space : network.spaces_) {
    auto made = make_space(network.home_);
    if (!made) return Unexpected(made.error());
    space = std::move(*made);
  }
  if (auto joined = network.join_hosts(); !joined) return Unexpected(joined.error());
  return network;
}

Network Network::over_loopback() {
  return {};
}

Result<void> Network::join_hosts() const {
  const std::vector<std::string> pair = {"ip",
                                         "link",
                                         "add",
                                         kInterface,
                                         "type",
                                         "veth",
                                         "peer",
                                         "name",
                                         kInterface,
                                         "netns",
                                         path_of(Host::answering)};
  for (const Host host : kHosts) {
    const auto visit = Visit::begin(home_, space_of(host));
    if (!visit) return Unexpected(visit.error());
    Result<void> done;
    if (host == Host::asking) done = run_command(pair);
    if (done)
      done = run_command(
          {"ip", "address", "add", fmt::format("{}/24", address(host)), "dev", kInterface});
    for (const char* const one : {kInterface, "lo"})
      if (done) done = run_command({"ip", "link", "set", one, "up"});
    if (!done) return done;
  }
  for (const Host host : kHosts) {
    const auto visit = Visit::begin(home_, space_of(host));
    if (!visit) return Unexpected(visit.error());
    if (auto runs = await_running(); !runs) return runs;
  }
  return {};
}

std::string Network::text() const {
  return is_loopback() ? "loopback of this host: no rate, and every byte counts that crosses it"
                       : "two network namespaces joined by a veth pair, MTU 1500";
}

const char* Network::address(Host host) const noexcept {
  return is_loopback() ? kLoopback : kAddresses[static_cast<std::size_t>(host)];
}

const char* Network::interface() const noexcept {
  return is_loopback() ? "lo" : kInterface;
}

std::string Network::path_of(Host host) const {
  return path_of_space(space_of(host));
}

std::vector<std::string> Network::words_at(Host host) const {
  if (is_loopback()) return {};
  return {"nsenter", "--net=" + path_of(host)};
}

Result<void> Network::enter(Host host) const {
  if (is_loopback()) return {};
  if (::setns(space_of(host).get(), CLONE_NEWNET) != 0) return Unexpected(system_error("setns"));
  show_interfaces();
  return {};
}

Result<TcpPair> Network::connect() const {
  sockaddr_in there = address_of(address(Host::answering));
  const socklen_t size = sizeof there;
  Descriptor listener;
  TcpPair pair;
  for (const Host host : {Host::answering, Host::asking}) {
    const auto visit = Visit::begin(home_, space_of(host));
    auto socket =
        visit
            ? host == Host::answering
                  ? bound_socket(there)
                  : Result<Descriptor>(Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)))
            : Unexpected(visit.error());
    if (!socket) return Unexpected(socket.error());
    (host == Host::answering ? listener : pair.asking) = std::move(*socket);
  }
  if (::listen(listener.get(), 1) != 0) return Unexpected(system_error("listen"));
  if (::connect(pair.asking.get(), reinterpret_cast<const sockaddr*>(&there), size) != 0)
    return Unexpected(system_error("connect"));
  pair.answering = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!pair.answering.is_open()) return Unexpected(system_error("accept"));
  send_at_once(pair.asking);
  send_at_once(pair.answering);
  return pair;
}

Result<std::string> Network::free_endpoint(Host host) const {
  const auto visit = Visit::begin(home_, space_of(host));
  if (!visit) return Unexpected(visit.error());
  sockaddr_in here = address_of(address(host));
  const auto socket = bound_socket(here);
  if (!socket) return Unexpected(socket.error());
  return fmt::format("{}:{}", address(host), ntohs(here.sin_port));
}

Result<std::uint64_t> Network::received_bytes() const {
  const auto visit = Visit::begin(home_, space_of(Host::answering));
  if (!visit) return Unexpected(visit.error());
  const std::string name = interface();
  std::ifstream lines("/proc/thread-self/net/dev");  // of the namespace that this thread is in
  for (std::string word; lines >> word;) {
    std::uint64_t bytes = 0;
    if (word == name + ":" && lines >> bytes) return bytes;
  }
  return Unexpected({Code::not_found, fmt::format("interface '{}': it does not count", name), ""});
}

Result<void> Network::limit(const Rate& rate) const {
  if (is_loopback()) {
    if (!rate.is_limited()) return {};
    return Unexpected({Code::unsupported, "loopback has no rate", ""});
  }
  for (const Host host : kHosts)
    if (auto limited = limit_host(host, rate); !limited) return limited;
  return {};
}

Result<void> Network::limit_host(Host host, const Rate& rate) const {
  const auto visit = Visit::begin(home_, space_of(host));
  if (!visit) return Unexpected(visit.error());
  std::vector<std::string> words = {"tc", "qdisc", "replace", "dev", kInterface, "root"};
  if (rate.is_limited())
    words.insert(words.end(), {"tbf", "rate", fmt::format("{}bit", rate.bits_per_second), "burst",
                               kBurst, "latency", kQueueing});
  else
    words.emplace_back("noqueue");
  return run_command(std::move(words));
}

}  // namespace gantry::bench
