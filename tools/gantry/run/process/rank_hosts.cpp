#include "run/process/rank_hosts.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <gantry/bridge.hpp>
#include <sstream>
#include <thread>

#include "errors.hpp"
#include "run/process/descriptor.hpp"
#include "run/process/host_job.hpp"
#include "run/process/ranks.hpp"

namespace gantry::run {
namespace {

constexpr std::chrono::seconds kIntroduction{5};  // for a caller to say the secret

/// The ranks that are hosts, as rank 0 says it: "hosts 1 3".
std::string text_of(const std::vector<unsigned>& ranks) {
  return fmt::format("hosts {}", fmt::join(ranks, " "));
}
bool names(const std::string& text, unsigned rank) {
  std::istringstream words(text);
  std::string word;
  while (words >> word)
    if (word == fmt::format("{}", rank)) return true;
  return false;
}

std::vector<unsigned> wanted_ranks(const Pipeline& pipeline) {
  std::vector<unsigned> ranks;
  for (std::size_t index = 0; index < pipeline.hosts.size(); ++index)
    if (pipeline.hosts[index].rank != 0 && is_used(pipeline, index))
      ranks.push_back(pipeline.hosts[index].rank);
  return ranks;
}

tl::unexpected<Error> no_such(const Pipeline& pipeline, const Host& host, std::string_view why,
                              std::string hint) {
  return tl::unexpected(pipeline.source.error(host.at, fmt::format("hosts.{}.rank", host.name),
                                              fmt::format("{} {}", host.rank, why),
                                              std::move(hint)));
}

/// A rank says of itself "PORT SECRET".
Result<void> add_launcher(const Pipeline& pipeline, Host& host,
                          const std::vector<std::string>& told) {
  if (host.rank >= told.size())
    return no_such(pipeline, host, fmt::format("is beyond the {} ranks of this job", told.size()),
                   "start more: mpirun -n COUNT gantry run FILE");
  std::istringstream words(told[host.rank]);
  std::string port;
  words >> port >> host.secret;
  BridgeAddress address = *parse_bridge_address(host.address);
  address.port = port;
  address.is_encrypted = false;  // that is its bridge
  host.launch.push_back(address.text());
  return {};
}

/// Any port, of any address: which one rank 0 calls is in its file.
Result<Descriptor> listen_anywhere(unsigned& port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  socklen_t size = sizeof address;
  auto* const words = reinterpret_cast<sockaddr*>(&address);
  Descriptor listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int off = 0;  // IPv4, too
  ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!listener || ::bind(listener.get(), words, size) != 0 || ::listen(listener.get(), 8) != 0 ||
      ::getsockname(listener.get(), words, &size) != 0)
    return tl::unexpected(cli::system_error("a socket for rank 0", errno));
  port = ntohs(address.sin6_port);
  return listener;
}

/// All bytes are compared, so that the time says nothing.
bool is_same(std::string_view one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
    difference |= static_cast<unsigned>(one[i] ^ other[i]);
  return difference == 0;
}

/// Whether the first line of a caller is the secret. Nothing beyond it is read.
bool knows(const Descriptor& caller, const std::string& secret) {
  const timeval patience{kIntroduction.count(), 0};
  ::setsockopt(caller.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string line(secret.size() + 1, '\0');
  const ssize_t length = ::recv(caller.get(), line.data(), line.size(), MSG_WAITALL);
  const timeval none{};
  ::setsockopt(caller.get(), SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  return length == static_cast<ssize_t>(line.size()) && is_same(line, secret + "\n");
}

/// Rank 0; others who call are sent away.
Result<Descriptor> accept_rank(const Descriptor& listener, const std::string& secret,
                               Deadline until) {
  while (!until.passed()) {
    pollfd waiting{listener.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until.left());
    if (::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000))) <= 0)
      continue;
    Descriptor caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (caller && knows(caller, secret)) return caller;
  }
  return tl::unexpected(Error{Code::timed_out, "rank 0 has not called", "see what it says"});
}

// Rank 0 ends this process when its time is up.
Result<Descriptor> call(const std::string& text) {
  const auto address = parse_bridge_address(text);
  if (!address) return tl::unexpected(address.error());
  auto socket = connect_host(*address, -1, Deadline::never());
  if (socket) return Descriptor(*socket);
  socket.error().hint = "is the rank on that host?";
  return tl::unexpected(std::move(socket).error());
}

/// Until the end of `from`, or until nobody takes it.
void carry(int from, int to) {
  std::array<char, 64 << 10> bytes;  // NOLINT: filled by read
  for (;;) {
    const ssize_t length = ::read(from, bytes.data(), bytes.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return;
    for (ssize_t done = 0; done < length;) {
      const ssize_t wrote =
          ::write(to, bytes.data() + done, static_cast<std::size_t>(length - done));
      if (wrote < 0 && errno != EINTR) return;
      done += std::max<ssize_t>(wrote, 0);
    }
  }
}

}  // namespace

Result<void> meet_ranks(Pipeline* pipeline) {
  const std::vector<unsigned> wanted =
      pipeline == nullptr ? std::vector<unsigned>{} : wanted_ranks(*pipeline);
  if (!own_rank()) {
    if (wanted.empty()) return {};
    const auto host = std::ranges::find(pipeline->hosts, wanted.front(), &Host::rank);
    return no_such(*pipeline, *host, "is a rank, and mpirun did not start this run",
                   "mpirun -n COUNT gantry run FILE, or srun --mpi=pmix");
  }
  const auto told = exchange_among_ranks(text_of(wanted));
  if (wanted.empty()) return {};
  if (!told) return tl::unexpected(told.error());
  for (std::size_t index = 0; index < pipeline->hosts.size(); ++index) {
    Host& host = pipeline->hosts[index];
    if (host.rank == 0 || !is_used(*pipeline, index)) continue;
    if (std::ranges::count(wanted, host.rank) > 1)
      return no_such(*pipeline, host, "is the rank of two hosts", "give each its own");
    if (auto added = add_launcher(*pipeline, host, *told); !added) return added;
  }
  return {};
}

Result<bool> wait_as_rank(std::chrono::nanoseconds patience) {
  const unsigned rank = own_rank().value_or(0);
  unsigned port = 0;
  const Result<Descriptor> listener = listen_anywhere(port);
  if (!listener) return tl::unexpected(listener.error());
  const Result<std::string> secret = make_token();
  if (!secret) return tl::unexpected(secret.error());
  const auto told = exchange_among_ranks(fmt::format("{} {}", port, *secret));
  if (!told) return tl::unexpected(told.error());
  if (!names(told->front(), rank)) return false;
  const auto caller = accept_rank(*listener, *secret, Deadline::after(patience));
  if (!caller) return tl::unexpected(caller.error());
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO})
    if (::dup2(caller->get(), stream) < 0) return tl::unexpected(cli::system_error("dup2", errno));
  return true;
}

Result<void> reach_rank(const std::string& address) {
  const Result<Descriptor> socket = call(address);
  if (!socket) return tl::unexpected(socket.error());
  const int on = 1;
  ::setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::thread([to = socket->get()] {
    carry(STDIN_FILENO, to);
    ::shutdown(to, SHUT_WR);  // the agent ends what it started
  }).detach();
  carry(socket->get(), STDOUT_FILENO);
  ::_exit(0);  // whatever the other direction waits for
}

}  // namespace gantry::run
