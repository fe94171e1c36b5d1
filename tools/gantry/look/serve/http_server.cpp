#include "look/serve/http_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "errors.hpp"

namespace gantry::cli {
namespace {

constexpr std::chrono::milliseconds kTick{1000};  // how late a silent caller may be found out
constexpr int kAcceptsARound = 64;                // then those who are there have their turn

Result<sockaddr_storage> own_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0) return address;
  return tl::unexpected(system_error("getsockname", errno));
}

}  // namespace

Result<HttpServer> HttpServer::listen(const BridgeAddress& where, const Interrupt& interrupt) {
  const auto socket = listen_at(where, interrupt.descriptor());
  if (!socket) return tl::unexpected(socket.error());
  // The kernel keeps callers that say nothing for so many seconds.
  const int deferred_s = static_cast<int>(kPatience.count());
  ::setsockopt(*socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, &deferred_s, sizeof deferred_s);
  return HttpServer(*socket);
}

HttpServer::HttpServer(HttpServer&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      is_full_(other.is_full_),
      connections_(std::move(other.connections_)) {
  other.connections_.clear();
}

HttpServer& HttpServer::operator=(HttpServer&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(is_full_, other.is_full_);
  std::swap(connections_, other.connections_);
  return *this;
}

HttpServer::~HttpServer() {
  while (!connections_.empty()) close_one(connections_.begin());
  if (socket_ >= 0) ::close(socket_);
}

std::string HttpServer::address() const {
  const auto own = own_address(socket_);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (!own ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&*own), sizeof *own, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  const std::string_view name = host.data();
  return own->ss_family == AF_INET6 ? fmt::format("[{}]:{}", name, port.data())
                                    : fmt::format("{}:{}", name, port.data());
}

bool HttpServer::is_loopback() const {
  const auto own = own_address(socket_);
  if (!own) return false;
  if (own->ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(*own).sin_addr.s_addr) >> 24 == 127;
  return own->ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(*own).sin6_addr);
}

Result<void> HttpServer::serve(const Interrupt& interrupt, const Answer& answer) {
  std::vector<pollfd> entries;
  for (;;) {
    entries.assign({{interrupt.descriptor(), POLLIN, 0}, {is_full_ ? -1 : socket_, POLLIN, 0}});
    for (const Connection& one : connections_)
      entries.push_back({one.socket, one.out.empty() ? short{POLLIN} : short{POLLOUT}, 0});
    if (::poll(entries.data(), entries.size(), static_cast<int>(kTick.count())) < 0 &&
        errno != EINTR)
      return tl::unexpected(system_error("poll", errno));
    if (entries[0].revents != 0) return tl::unexpected(Error{Code::interrupted, "interrupted", {}});
    auto one = connections_.begin();
    for (std::size_t i = 2; i < entries.size(); ++i) {
      const auto here = one++;
      const bool is_late = Clock::now() - here->active > (here->is_over ? kLinger : kPatience);
      if (entries[i].revents != 0 ? !go_on(*here, entries[i].revents, answer) : is_late)
        close_one(here);
    }
    is_full_ = false;
    if (entries[1].revents != 0) accept_some(answer);
  }
}

void HttpServer::accept_some(const Answer& answer) {
  for (int i = 0; i < kAcceptsARound; ++i) {
    const int socket = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      const bool is_full = errno == EMFILE || errno == ENFILE;
      is_full_ = is_full && connections_.empty();  // until the next tick
      if (!is_full || is_full_) return;
      make_room();
      continue;
    }
    if (connections_.size() >= kConnections) make_room();
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Connection& newest = connections_.emplace_back();
    newest.socket = socket;
    if (!go_on(newest, POLLIN, answer)) close_one(std::prev(connections_.end()));
  }
}

void HttpServer::make_room() {
  close_one(std::ranges::min_element(connections_, {}, [](const Connection& one) {
    return std::pair(!one.out.empty(), one.active);
  }));
}

void HttpServer::close_one(std::list<Connection>::iterator one) {
  ::close(one->socket);
  connections_.erase(one);
}

/// False: the connection is to be closed.
bool HttpServer::go_on(Connection& connection, short events, const Answer& answer) {
  if ((events & POLLERR) != 0) return false;
  if (connection.is_over) {
    connection.in.clear();
    return receive(connection) && Clock::now() - connection.active < kLinger;
  }
  connection.active = Clock::now();
  if (!connection.out.empty()) {
    if (!send_rest(connection)) return false;
  } else if (!receive(connection)) {
    return false;
  }
  while (connection.out.empty() && !connection.is_over) {
    auto request = take_request(connection.in);
    if (!request && connection.in.size() <= kMostRequestBytes) return true;
    if (!request || !request->is_sound) {
      HttpRequest refused;
      refused.keeps_alive = false;
      const HttpResponse response{.status = request ? 400 : 431,
                                  .body = "no request of a kind that is answered here\n"};
      connection.out = to_text(response, refused);
      connection.ends = true;
    } else {
      connection.ends = !request->keeps_alive;
      connection.out = to_text(answer(*request), *request);
    }
    if (!send_rest(connection)) return false;
  }
  return true;
}

bool HttpServer::receive(Connection& connection) {
  std::array<char, kMostRequestBytes> bytes;
  const ssize_t got = ::recv(connection.socket, bytes.data(), bytes.size(), 0);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  connection.in.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
}

bool HttpServer::send_rest(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const ssize_t put = ::send(connection.socket, connection.out.data() + connection.sent,
                               connection.out.size() - connection.sent, MSG_NOSIGNAL);
    if (put < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<std::size_t>(put);
  }
  connection.out.clear();
  connection.sent = 0;
  connection.is_over = connection.ends;
  // Closing it while bytes lie unread would take the answer away again (RFC 9112, 9.6).
  return !connection.is_over || ::shutdown(connection.socket, SHUT_WR) == 0;
}

}  // namespace gantry::cli
