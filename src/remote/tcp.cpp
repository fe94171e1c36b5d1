#include "remote/tcp.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <memory>

#include "base/result.hpp"
#include "base/socket.hpp"

namespace gantry {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> look_up(const HostPort& where, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), where.port.c_str(), &wanted, &found);
  if (error == 0) return Addresses(found, &::freeaddrinfo);
  if (error == EAI_MEMORY) return fail(Code::out_of_memory, "out of memory");
  if (error == EAI_SYSTEM) return fail_errno(fmt::format("host '{}'", where.host));
  return fail(Code::not_found, fmt::format("host '{}': {}", where.host, ::gai_strerror(error)),
              "check the name; an address works without a name server");
}

Result<Fd> connect_one(const addrinfo& address, int interrupt, Deadline deadline) {
  Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("socket");
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return fail_errno("connect");
    GANTRY_TRY(await_socket(socket.get(), POLLOUT, interrupt, deadline));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      errno = error;
      return fail_errno("connect");
    }
  }
  set_up_tcp(socket.get());
  return socket;
}

std::string text_of_unix(int socket, const sockaddr_storage& address, socklen_t size) {
  const auto& name = reinterpret_cast<const sockaddr_un&>(address);
  if (size > offsetof(sockaddr_un, sun_path) && name.sun_path[0] != '\0')
    return HostPort{{}, {}, name.sun_path}.text();
  const auto who = peer_of(socket);
  return who && who->pid > 0 ? fmt::format("process {}", who->pid)
                             : "a process of another namespace";
}

std::string text_of(int (*name_of)(int, sockaddr*, socklen_t*), int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const words = reinterpret_cast<sockaddr*>(&address);
  if (name_of(socket, words, &size) != 0) return "?";
  if (words->sa_family == AF_UNIX) return text_of_unix(socket, address, size);
  if (::getnameinfo(words, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return HostPort{host.data(), port.data()}.text();
}

}  // namespace

Result<void> await_socket(int socket, short events, int interrupt, Deadline deadline) {
  for (;;) {
    std::array<pollfd, 2> entries{pollfd{socket, events, 0}, pollfd{interrupt, POLLIN, 0}};
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (ready < 0) continue;
    if (entries[1].revents != 0) return fail(Code::interrupted, "interrupted");
    if (entries[0].revents != 0) return {};
    if (deadline.passed()) return fail(Code::timed_out, "no answer in time");
  }
}

void set_up_tcp(int socket) noexcept {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Result<Fd> connect_tcp(const HostPort& where, int interrupt, Deadline deadline) {
  GANTRY_ASSIGN(const Addresses addresses, look_up(where, AI_ADDRCONFIG));
  Error last;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    auto socket = connect_one(*one, interrupt, deadline);
    if (socket) return socket;
    last = std::move(socket).error();
    if (last.code == Code::interrupted) return tl::unexpected(std::move(last));
  }
  const bool is_late = last.code == Code::timed_out;
  return fail(is_late ? Code::timed_out : Code::not_found,
              fmt::format("{}: {}", where.text(), last.message),
              is_late ? "the host is down, or something on the way drops what is sent"
              : where.is_encrypted
                  ? "start a bridge there: gantry bridge --listen tls:ADDRESS --token-file FILE"
                  : "start a bridge there: gantry bridge --listen ADDRESS --token-file FILE");
}

Result<Fd> listen_tcp(const HostPort& where) {
  GANTRY_ASSIGN(const Addresses addresses, look_up(where, AI_PASSIVE));
  const addrinfo& address = *addresses;
  Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("socket");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno == EADDRINUSE)
      return fail(Code::already_exists, fmt::format("{}: somebody listens there", where.text()),
                  "choose another port, or end that process");
    if (errno == EADDRNOTAVAIL)
      return fail(Code::not_found, fmt::format("{}: this host has no such address", where.text()),
                  "ip address lists those it has");
    return fail_errno(fmt::format("listening on {}", where.text()));
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) return fail_errno("listen");
  return socket;
}

std::string own_address(int socket) {
  return text_of(&::getsockname, socket);
}
std::string peer_address(int socket) {
  return text_of(&::getpeername, socket);
}

Result<void> send_exactly(int socket, ConstByteSpan bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      GANTRY_TRY(await_socket(socket, POLLOUT, -1, deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return fail(Code::peer_gone, "it closed the connection");
    } else if (errno != EINTR) {
      return fail_errno("send");
    }
  }
  return {};
}

Result<void> receive_exactly(int socket, ByteSpan into, int interrupt, Deadline deadline) {
  while (!into.empty()) {
    const auto got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return fail(Code::peer_gone, "it closed the connection");
    } else if (errno == EAGAIN) {
      GANTRY_TRY(await_socket(socket, POLLIN, interrupt, deadline));
    } else if (errno != EINTR) {
      return fail_errno("recv");
    }
  }
  return {};
}

}  // namespace gantry
