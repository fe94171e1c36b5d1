#include "network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "../support/system/numbers.hpp"
#include "command.hpp"

namespace gantry::bench {
namespace {

constexpr std::array kHosts = {Host::asking, Host::answering};
constexpr std::array kInterfaces = {"gantry0", "gantry1"};     // of the two hosts, in their order
constexpr std::array kAddresses = {"192.0.2.1", "192.0.2.2"};  // RFC 5737: in no real network
constexpr const char* kLoopback = "127.0.0.1";
// More than the largest packet that the kernel hands on in one piece, and little beside a message.
constexpr const char* kBurst = "256kb";
constexpr const char* kQueueing = "50ms";  // longer waits are drops

template <class Each>
auto of(Host host, const Each& each) {
  return each[static_cast<std::size_t>(host)];
}

Descriptor present_space() {
  return Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

/// The calling thread is in another namespace for as long as this lives.
class Visit {
 public:
  static Result<Visit> begin(const Descriptor& home, const Descriptor& there) {
    if (!home.is_open()) return Visit(-1);
    if (::setns(there.get(), CLONE_NEWNET) != 0) return Unexpected(system_error("setns"));
    return Visit(home.get());
  }
  Visit(Visit&& other) noexcept : home_(std::exchange(other.home_, -1)) {}
  Visit& operator=(Visit&&) = delete;
  ~Visit() {  // whoever stays abroad would measure something else
    if (home_ >= 0 && ::setns(home_, CLONE_NEWNET) != 0) std::abort();
  }

 private:
  explicit Visit(int home) noexcept : home_(home) {}
  int home_;
};

/// A new namespace; the calling thread is in `home` again.
Result<Descriptor> make_space(const Descriptor& home) {
  if (::unshare(CLONE_NEWNET) != 0) {
    if (errno != EPERM) return Unexpected(system_error("a network namespace"));
    return Unexpected({Code::permission_denied, "no right to make network namespaces", ""});
  }
  Descriptor made = present_space();
  const int number = errno;
  if (::setns(home.get(), CLONE_NEWNET) != 0) std::abort();  // see ~Visit()
  if (!made.is_open()) return Unexpected(system_error("a network namespace", number));
  return made;
}

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
  const std::string far =
      fmt::format("/proc/{}/fd/{}", ::getpid(), space_of(Host::answering).get());
  const std::vector<std::string> pair = {
      "ip",   "link", "add",  of(Host::asking, kInterfaces),    "type",
      "veth", "peer", "name", of(Host::answering, kInterfaces), "netns",
      far};
  for (const Host host : kHosts) {
    const auto visit = Visit::begin(home_, space_of(host));
    if (!visit) return Unexpected(visit.error());
    const std::string interface = of(host, kInterfaces);
    Result<void> done;
    if (host == Host::asking) done = run_command(pair);
    if (done)
      done = run_command(
          {"ip", "address", "add", fmt::format("{}/24", of(host, kAddresses)), "dev", interface});
    for (const std::string& one : {interface, std::string("lo")})
      if (done) done = run_command({"ip", "link", "set", one, "up"});
    if (!done) return done;
  }
  return {};
}

std::string Network::text() const {
  return is_loopback() ? "loopback of this host: no rate, and every byte counts that crosses it"
                       : "two network namespaces joined by a veth pair, MTU 1500";
}

const char* Network::address(Host host) const noexcept {
  return is_loopback() ? kLoopback : of(host, kAddresses);
}

Result<void> Network::enter(Host host) const {
  if (is_loopback() || ::setns(space_of(host).get(), CLONE_NEWNET) == 0) return {};
  return Unexpected(system_error("setns"));
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
  const std::string name = is_loopback() ? "lo" : of(Host::answering, kInterfaces);
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
  std::vector<std::string> words = {"tc", "qdisc", "replace", "dev", of(host, kInterfaces), "root"};
  if (rate.is_limited())
    words.insert(words.end(), {"tbf", "rate", fmt::format("{}bit", rate.bits_per_second), "burst",
                               kBurst, "latency", kQueueing});
  else
    words.emplace_back("noqueue");
  return run_command(std::move(words));
}

}  // namespace gantry::bench
